"""Messages of a real broker, a part of them twice, for consumers that are killed, stopped and paused: one effect each."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "clients" / "python" / "src")]
from broker import Broker, Event  # noqa: E402
from languages import Consumer  # noqa: E402
from running import Running, wait_for  # noqa: E402
from sinks import Sinks  # noqa: E402

import grpc  # noqa: E402
from idempotency_ledger._proto import admin_pb2, admin_pb2_grpc, ledger_pb2 as pb  # noqa: E402

# A poisonous message uses up its attempts: fewer of them would park messages whose consumers were killed too often.
POLICIES = """
[policy]
lease = "1s"
reclaim_grace = "200ms"
max_attempts = 20
backoff = { initial = "100ms", max = "500ms" }
"""
CONSUMERS, POISON = 3, 2
PATIENCE = 60  # seconds without another message that is finished: then some never will be
RESTART = 100  # messages: in runs of as many the broker is killed, too, where it can be started again
TRIES = 3  # of a run that cannot be judged
BOUND = 10  # seconds from SIGTERM to the end of a consumer: the grace that each of them has

FINAL = {"payment": pb.ENTRY_STATE_COMPLETED, "poison": pb.ENTRY_STATE_PARKED}


class Run:
    """One broker with consumers, at first one for each of `consumers`."""

    name = header = ""
    policies = POLICIES
    wait: float | None = None
    shares = 0
    stop_within: float = BOUND

    def __init__(self, running: Running, broker: type[Broker], binary: str, consumers: list[Consumer], dice: random.Random) -> None:
        policies = running.path / "policies.toml"
        policies.write_text(self.policies)
        _, self.address = running.serve(binary, None, "--config", policies)
        self.running, self.consumers, self.dice = running, consumers, dice
        self.broker = broker(running, self.wait, self.shares)
        self.sinks = Sinks(running.path / "sinks.db")
        # Stays so for all connections: readers do not wait for writers.
        self.sinks.database.execute("PRAGMA journal_mode = WAL")
        self.more: dict[str, str] = {}  # of the environment of consumers
        self.prepare()
        self.admin = admin_pb2_grpc.AdminServiceStub(grpc.insecure_channel(self.address))
        self.every = max(self.broker.every, *(each.starts for each in consumers))
        self.kills = self.stops = self.pauses = self.restarts = 0
        self.slowest = 0.0
        self.stopped_late: list[str] = []  # what consumers have done that did not stop in good order at the end
        self.workers = [self.worker(place) for place in range(len(consumers))]

    @classmethod
    def places(cls, consumers: list[Consumer], size: int) -> list[Consumer]:
        """The consumers that run at the same time."""
        return consumers * CONSUMERS

    def prepare(self) -> None:
        """Is called before the first consumer starts."""

    def worker(self, place: int) -> subprocess.Popen:
        consumer = self.consumers[place]
        paths = (consumer.package / "src", ROOT / "examples/consumer", HERE / "consumers")
        environment = {**os.environ, "LEDGER_PACKAGE": str(consumer.package), "BROKER_WAIT": f"{self.broker.wait:g}", **self.more,
                       "PYTHONPATH": os.pathsep.join(map(str, paths))}
        return self.running.start(
            "consumer", *consumer.command(), "--broker", self.broker.url, "--ledger", self.address,
            "--sinks", self.running.path / "sinks.db", environment=environment)

    def kill(self, place: int) -> None:
        """Kills a consumer, and starts another one for it."""
        victim = self.workers[place]
        assert victim.poll() is None, f"a consumer ended by itself with {victim.returncode}: {self.said()}"
        self.consumes(victim)  # One that is killed sooner has done nothing.
        victim.kill()
        victim.wait()
        self.kills += 1
        self.workers[place] = self.worker(place)

    def harm(self) -> None:
        """Kills, stops or pauses a consumer, and starts another one for it unless it goes on."""
        place = self.dice.randrange(len(self.workers))
        victim = self.workers[place]
        assert victim.poll() is None, f"a consumer ended by itself with {victim.returncode}: {self.said()}"
        what = self.dice.random()
        if what < 0.6:
            self.kill(place)
        elif what < 0.8:
            self.stop(victim)
            self.workers[place] = self.worker(place)
        else:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(1.5)  # longer than lease and grace: others get what it holds
            victim.send_signal(signal.SIGCONT)
            self.pauses += 1

    def stop(self, worker: subprocess.Popen) -> None:
        """Asks a consumer to stop once it can be asked, and sees that it ends in good order, within its bound."""
        self.consumes(worker)
        began = time.monotonic()
        worker.send_signal(signal.SIGTERM)
        try:
            code = worker.wait(self.stop_within + BOUND)
        except subprocess.TimeoutExpired:
            code = None
        took = time.monotonic() - began
        assert code == 0 and took <= self.stop_within, f"asked to stop, a consumer ended after {took:.1f} s with {code}: {self.said()}"
        self.stops += 1
        self.slowest = max(self.slowest, took)

    def consumes(self, worker: subprocess.Popen) -> None:
        """Waits until a consumer can be asked to stop."""
        wait_for("a consumer consumes", lambda: f"{worker.pid} consumes" in self.running.log("consumer"), seconds=60)

    def begun(self) -> int:
        """The number of effects that have begun, repeats included."""
        return self.sinks.database.execute("SELECT count(*) FROM plain").fetchone()[0]

    def said(self) -> str:
        return self.running.log("consumer")[-3000:]

    def unfinished(self, messages: dict[str, str]) -> list[str]:
        def state(id: str) -> int:
            try:
                return self.entry(id).state
            except grpc.RpcError:
                return pb.ENTRY_STATE_UNSPECIFIED

        return [id for id, kind in messages.items() if state(id) != FINAL[kind]]

    def entry(self, id: str) -> admin_pb2.Entry:
        key = pb.EntryKey(consumer="payments", source="shop", id=id)
        return self.admin.GetEntry(admin_pb2.GetEntryRequest(key=key), timeout=5).entry

    def events(self, messages: dict[str, str], twice: int) -> list[Event]:
        """The messages in any order, some of them twice, and one without an id."""
        events = [{"specversion": "1.0", "id": id, "source": "shop", "type": kind} for id, kind in messages.items()]
        payments = [event for event in events if event["type"] == "payment"]
        # The very same body: a producer repeats itself.
        events += self.dice.sample(payments, twice)
        events.append({"type": "payment"})  # It has no id.
        self.dice.shuffle(events)
        return events

    def play(self, size: int) -> dict[str, str]:
        """Publishes, and harms consumers until nearly everything is done; then lets them finish."""
        messages = {f"order-{number}": "payment" for number in range(size)}
        messages.update({f"poison-{number}": "poison" for number in range(POISON)})
        self.publish(self.events(messages, size // 5))
        left, changed = messages, time.monotonic()
        while now := self.unfinished(left):
            changed = time.monotonic() if len(now) < len(left) else changed
            assert time.monotonic() < changed + PATIENCE, f"unfinished: {sorted(left)[:10]}: {self.said()}"
            left = {id: messages[id] for id in now}
            if sum(kind == "payment" for kind in left.values()) > size // 10:
                time.sleep(self.every)
                self.harm()
            else:
                time.sleep(0.5)
        time.sleep(1)
        self.end()
        return messages

    def end(self) -> None:
        """Asks all consumers to stop, one after the other. Effects are judged also where one does not stop in good order."""
        for place, worker in enumerate(self.workers):
            try:
                self.stop(worker)
            except AssertionError as error:
                self.stopped_late.append(f"{self.consumers[place].language}: {error}")
                worker.kill()
                worker.wait()

    def publish(self, events: list[Event]) -> None:
        """Publishes; in portions where the broker gives partitions to consumers, a killed one in the middle of each."""
        portions = [events[number::self.broker.portions] for number in range(self.broker.portions)]
        for portion in portions[:-1]:
            before = self.begun()
            self.broker.publish(portion)
            wait_for("an effect begins", lambda: self.begun() > before, seconds=120, every=0.02)
            self.kill(self.dice.randrange(len(self.workers)))
        if self.broker.restarts and len(events) >= RESTART:
            self.broker.kill()
            self.broker.start()
            self.restarts += 1
        self.broker.publish(portions[-1])

    def finish(self) -> None:
        """What was in flight when consumers were asked to stop is acknowledged by one that starts again."""
        last = self.worker(0)
        wait_for("everything is acknowledged", lambda: self.broker.left() == 0, seconds=60, every=0.5)
        self.stop(last)
        assert self.broker.left() == 0, "messages are left"

    def counts(self, sink: str) -> dict[str, int]:
        """The number of effects of each message."""
        return dict(self.sinks.database.execute(f"SELECT id, count(*) FROM {sink} GROUP BY id"))

    def letters(self, messages: dict[str, str]) -> set[str | None]:
        """The ids of the dead letters that there must be: those of the poisonous messages, and of the one without an id."""
        return {id for id, kind in messages.items() if kind == "poison"} | {None}

    def wrong(self, messages: dict[str, str]) -> list[str]:
        """The violations that a run has found."""
        sinks = {sink: self.counts(sink) for sink in Sinks.NAMES}
        found = list(self.stopped_late)
        for id, kind in messages.items():
            counts = {sink: effects.get(id, 0) for sink, effects in sinks.items()}
            right = counts["fenced"] == counts["deduplicating"] == 1 <= counts["plain"] if kind == "payment" else not any(
                counts.values())
            found += [] if right else [f"{id} has the effects {counts}"]
        dead = set(self.broker.dead())
        wanted = self.letters(messages)
        lost, extra = sorted(map(str, wanted - dead)), sorted(map(str, dead - wanted))
        return found + ([] if dead == wanted else [f"dead letters are missing: {lost[:10]}, and are too many: {extra[:10]}"])

    def unjudged(self) -> str:
        """Why what is wrong may be the machine's fault; empty if it is not."""
        return ""

    def report(self, size: int) -> str:
        """What happened, for the line of a run that has ended."""
        repeated = sum(count > 1 for count in self.counts("plain").values())
        return (f"{size} messages, {self.kills} kills, {self.stops} stops, {self.pauses} pauses, "
                f"{self.restarts} restarts of the broker, {repeated} effects repeated and fenced")


def one(kind: type[Run], binary: str, broker: type[Broker], consumers: list[Consumer], size: int, seed: int, tries: int = TRIES) -> bool:
    """Makes one run; prints a line, and returns whether all was right. A run that cannot be judged is made again."""
    began = time.monotonic()
    with Running() as running:
        run = None
        try:
            run = kind(running, broker, binary, kind.places(consumers, size), random.Random(seed))
            messages = run.play(size)
            run.finish()
            wrong = run.wrong(messages)
        except AssertionError as error:
            wrong = [str(error)]
        finally:
            if run:
                run.broker.end()
        languages = consumers[0].language if len(consumers) == 1 else f"{len(consumers)} languages"
        who = f"{languages:<18}" if kind.header else f"{' '.join(filter(None, (languages, kind.name))):<12}"
        print(f"{broker.name:<10} {who} {'ok' if not wrong else 'FAILED':<7} "
              f"{run.report(size) if run else 'not begun'}, seed {seed}, {time.monotonic() - began:.1f} s", flush=True)
        for each in wrong[:5]:
            print(f"  {each}", flush=True)
        unjudged = run.unjudged() if run and wrong else ""
    if unjudged and tries > 1:
        print(f"  again, since {unjudged}", flush=True)
        return one(kind, binary, broker, consumers, size, seed, tries - 1)
    return not wrong
