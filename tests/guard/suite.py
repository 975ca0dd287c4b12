"""The guard of the Python package, in Postgres, SQLite and MariaDB: consumers are killed, stopped beyond their leases and
continued, entries are redriven by force and purged, the ledger is killed. With the guard each message has one effect.
The consumers are that of examples/guard.

    python tests/guard/suite.py --binary target/debug/idempotency-ledger --database-url postgres://… [--size N]

The ledger and the first guard are in the Postgres cluster of --database-url, whose database must be empty. The last
line is what the run found.
"""

import collections
import concurrent.futures
import functools
import json
import os
import random
import selectors
import subprocess
import sys
import time
import uuid

from places import EXAMPLE, MariaDb, Postgres, Sqlite
from checks import Checks
from lane import DELETABLE, Lane
from ledger import Ledger, Operator, results
from nursery import Nursery
from plan import AT_RANDOM, CALM, COPIES, FEW, HARMS, OPERATED
from databases import Database
from running import WITH_PACKAGE, Running, checked, suite_arguments, wait_for

import grpc
from idempotency_ledger import guard
from stubs import pb, rpc

PROBLEMS_MAX = 20  # of a lane, after which there is no use in going on


def run(lanes, selector, ledger, chance, kills, patience):
    """Until every message of every lane is acknowledged as often as it was published."""
    began = told = time.monotonic()
    loud = bool(os.environ.get("LEDGER_PROOF_PROGRESS"))
    published = COPIES * sum(len(lane.messages) for lane in lanes)
    next_kill = [chance.random() for _ in range(kills)]  # by the share of what is acknowledged
    next_kill.sort(reverse=True)
    while not all(lane.is_done() for lane in lanes):
        for lane in lanes:
            lane.step()
        for found, _ in selector.select(timeout=0.005):
            lane, worker = found.data
            lane.heard(worker)
        done = sum(lane.broker.acknowledged for lane in lanes)
        if next_kill and done / published >= next_kill[-1]:
            next_kill.pop()
            ledger.kill()
        now = time.monotonic()
        if loud and now - told > 2:
            told = now
            print(f"guard: {done} of {published} acknowledged, {now - began:.0f} s", file=sys.stderr, flush=True)
        if any(len(lane.problems) > PROBLEMS_MAX for lane in lanes):
            raise SystemExit("\n".join(problem for lane in lanes for problem in lane.problems))
        if now - began > patience:
            left = {lane.consumer: [message.id for message in lane.messages if message.left][:5] for lane in lanes}
            standing = [(lane.consumer, vars(worker)) for lane in lanes for worker in lane.workers if worker.message]
            raise SystemExit(f"after {patience:.0f} s not acknowledged yet: {left}; at work: {standing}")


def report(lanes, ledger):
    """The tables, with the guard beside without; what is wrong, and what was found."""
    wrong, told, seen, by_kind = [], [], collections.Counter(), collections.defaultdict(collections.Counter)
    print(f"\n{'database':<36}{'messages':>9}{'deliveries':>11}{'with the guard':>15}{'without':>9}  effects")
    for guarded, plain in zip(lanes[::2], lanes[1::2]):
        name, size, seen = guarded.place.name, len(guarded.messages), seen + guarded.seen
        faults, effects = guarded.judge(results(ledger, guarded))
        _, doubled = plain.judge(results(ledger, plain))
        deliveries, with_it, without = guarded.broker.delivered, sum(effects.values()), sum(doubled.values())
        print(f"{name:<36}{size:>9}{deliveries:>11}{with_it:>15}{without:>9}")
        for message in guarded.messages:
            one = effects[message.id], doubled[message.id]
            by_kind[message.kind].update(messages=1, guarded=one[0], plain=one[1])
        wrong += [f"{name}: {fault}" for fault in faults]
        if without <= size:
            wrong.append(f"{name}: without the guard {size} messages have {without} effects: nothing was tested")
        told.append(f"{name}: {size} messages × {COPIES}, {deliveries} deliveries, {with_it} effects, "
                    f"{without} without the guard")
    print(f"\n{'what happened to the message':<36}{'messages':>9}{'':>11}{'with the guard':>15}{'without':>9}  effects")
    for kind in (CALM, *HARMS, OPERATED):
        one = by_kind[kind]
        print(f"{kind:<36}{one['messages']:>9}{'':>11}{one['guarded']:>15}{one['plain']:>9}")
    if sum(one["messages"] for one in by_kind.values()) > len(HARMS) ** 2:
        wrong += [f"no process was {harm}" for harm in HARMS if not seen[harm] and harm != AT_RANDOM]
    happened = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()))
    return wrong, f"{'; '.join(told)}; with the guard {happened}"


def program_runs(place, ledger):
    """The example's program, as its own page starts it: it pays once, stops where a guard row is not its
    own, settles nothing where the database fails, and goes on after what is not an event."""
    url, stub = place.make("program"), rpc.LedgerServiceStub(grpc.insecure_channel(ledger.address))

    def deliver(name, times):
        return take(json.dumps({"source": "shop", "id": name, "data": {"amount": 42}}) + "\n", times)

    def take(line, times=1):
        command = [sys.executable, EXAMPLE / "consumer.py", "--ledger", ledger.address, "--database", url,
                   "--consumer", f"{place.name}-program"]
        return subprocess.run(command, input=line * times, capture_output=True, text=True, timeout=60,
                              env=WITH_PACKAGE)

    ran = deliver("order-1", 2)
    assert (ran.returncode, ran.stdout) == (0, "ACK\nACK\n"), ran
    database, key = Database(url), pb.EntryKey(consumer=f"{place.name}-program", source="shop", id="order-2")
    assert database.execute("SELECT count(*) FROM payments").fetchone()[0] == 1
    claim = pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="the suite")
    acquired = stub.Claim(claim, timeout=5).acquired
    stub.Release(pb.ReleaseRequest(key=key, token=acquired.token), timeout=5)
    database.insert_new(guard._INSERT, acquired.idempotency_key, "", key.consumer, "shop", "order-3", 1)
    ran = deliver("order-2", 1)
    assert ran.returncode == 1 and not ran.stdout and "ALERT" in ran.stderr, ran
    claim.claim_id = str(uuid.uuid4())
    assert stub.Claim(claim, timeout=5).WhichOneof("verdict") == "in_progress", "it settled all the same"
    assert database.execute("SELECT count(*) FROM payments").fetchone()[0] == 1
    database.execute("ALTER TABLE payments RENAME TO payments_away")
    ran = deliver("order-4", 1)
    database.execute("ALTER TABLE payments_away RENAME TO payments")
    assert ran.returncode == 0 and ran.stdout.startswith("RETRY_LATER"), ran
    key = pb.EntryKey(consumer=f"{place.name}-program", source="shop", id="order-4")
    claim = pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="the suite")
    assert stub.Claim(claim, timeout=5).WhichOneof("verdict") == "in_progress", "an error of the database was settled"
    ran = take('{"source": "shop", "id"\n[1]\n{"source": "shop"}\n')
    assert (ran.returncode, ran.stdout) == (0, "DEAD_LETTER\n" * 3), ran
    database.close()


def check(places):
    """All cases, the databases beside each other: most of the time is waiting."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        return sum(pool.map(lambda place: checked(Checks(place, place.make("checks")).all()), places))


def main():
    parser = suite_arguments(__doc__, 24, "messages in each database, with the guard and without")
    parser.add_argument("--harms-alone", action="store_true", help="without the cases that come first")
    parser.add_argument("--only", nargs="+", help="these databases")
    options = parser.parse_args()
    with Running() as running, selectors.DefaultSelector() as selector:
        places = [Postgres(options.database_url), Sqlite(running.path)]
        if not options.only or "mariadb" in options.only:
            places.append(MariaDb(running))
        places = [place for place in places if not options.only or place.name in options.only]
        if not options.harms_alone and check(places):
            sys.exit(1)
        ledger = Ledger(running, options.binary, options.database_url)
        wait_for("the ledger answers", ledger.answers)
        cases = [(f"{place.name}: the example's program", functools.partial(program_runs, place, ledger))
                 for place in places]
        if not options.harms_alone and checked(cases):
            sys.exit(1)
        operator, nursery = Operator(ledger), Nursery((running.path / "workers.log").open("ab"))
        lanes = [Lane(place, guarded, ledger.address, operator, options.size, options.seed, selector, nursery)
                 for place in places for guarded in (True, False)]
        # The last message may be one that is deleted by a call before each of its copies but the first.
        late = DELETABLE * (COPIES - 1) if options.size > FEW else 0
        try:
            run(lanes, selector, ledger, random.Random(options.seed), kills=2 + options.size // 500,
                patience=60 + late + options.size * len(lanes) / 25)
            wrong, found = report(lanes, ledger)
        except BaseException:
            print(running.log("workers")[-4000:])
            raise
        finally:
            for lane in lanes:
                lane.stop()
            nursery.end()
        if wrong:
            print(running.log("workers")[-4000:])
            sys.exit("\n".join(["WRONG:", *wrong[:50], f"seed {options.seed}"]))
        print(f"FOUND {found}; the ledger killed {ledger.kills} times, {operator.deleted_by_call} of the purged by "
              "DeleteEntry")


if __name__ == "__main__":
    main()
