"""A real broker redelivers real CloudEvents to real consumers that die, stop, stand still and fail.

Counts the effects in three sinks. The ledger cannot know what happened to an effect whose process ended
before Complete, nor stop a zombie: there, and where a consumer was told to repeat, a plain sink sees two.
A fenced sink and one that deduplicates by idempotency_key see exactly one, always.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import uuid
from dataclasses import dataclass

import nats
from running import ROOT, WITH_PACKAGE, Running, free_port, options, wait_for

import grpc
from hop import NEW_ADVICE, NEW_VERDICT, Hop
from producer import cloud_event, publish
from sinks import Sinks
from stubs import admin_pb, admin_rpc, pb

POLICIES = """
[policy]
lease = "1s"
reclaim_grace = "200ms"
max_attempts = 3
backoff = { initial = "100ms", max = "500ms" }

[consumers."transfers"]
on_expiry = "PARK_IF_STARTED"

[consumers."refunds"]
on_expiry = "PARK_IF_STARTED"
"""
# What runs of each of the ledger's consumers. Those that announce their effects have policies that park; that of
# `gifts` does not yet.
WORKERS = {
    "payments": [["--drain", "2"], ["--drain", "2"]],
    "transfers": [["--announce"]],
    "refunds": [["--announce", "--repeat-announced"]],
    "gifts": [["--announce"]],
}
KILL, STOP, TERM, NONE = "SIGKILL", "SIGSTOP", "SIGTERM", "SIGCONT"
SHOWN = "<!-- tests/python/redelivery.py prints these rows: begin -->\n```text\n"
AGES = 60  # seconds: an effect that does not end by itself


@dataclass
class Scenario:
    what: str
    effects: tuple  # plain, fenced, deduplicating
    fault: tuple | None = None  # where, by which signal, and how long the effect then takes
    exits: int | None = -signal.SIGKILL  # how the process that the fault hits ends; None: not of it
    consumer: str = "payments"
    kind: str = "payment"
    copies: int = 1
    state: str = "COMPLETED"
    dead: int = 0  # dead letters
    redriven: bool = False  # an operator redrives it and replays its dead letter


SCENARIOS = {
    "quiet": Scenario("nothing happens", (1, 1, 1)),
    "duplicates": Scenario("the producer publishes three times", (1, 1, 1), copies=3),
    "crash-before-effect": Scenario("kill -9 before the effect", (1, 1, 1), ("before effect", KILL, 0)),
    "crash-after-effect": Scenario("kill -9 between effect and Complete", (2, 1, 1), ("after effect", KILL, 0)),
    "crash-before-ack": Scenario("kill -9 between Complete and ack", (1, 1, 1), ("before ack", KILL, 0)),
    "slow": Scenario("takes three times its lease", (1, 1, 1), ("amid effect", NONE, 3), exits=None),
    "stopped": Scenario("SIGTERM in the middle of the effect", (1, 1, 1), ("amid effect", TERM, 0.5), exits=0),
    "too-slow": Scenario("SIGTERM, and the effect does not end", (2, 1, 1), ("amid effect", TERM, AGES), exits=1),
    "twice": Scenario("SIGTERM twice", (2, 1, 1), ("amid effect", TERM, AGES), exits=-signal.SIGTERM),
    "zombie": Scenario("paused beyond its lease, then resumed", (2, 1, 1), ("before effect", STOP, 0), exits=None),
    "hop": Scenario("a hop loses Complete, and says INTERNAL", (1, 1, 1)),
    "advice": Scenario("a newer ledger, an unknown advice", (1, 1, 1)),
    "verdict": Scenario("a newer ledger, an unknown verdict", (1, 1, 1)),
    "flaky": Scenario("fails once", (1, 1, 1), kind="flaky"),
    "poison": Scenario("fails until it is parked", (0, 0, 0), kind="poison", copies=2, state="PARKED", dead=2),
    "changed": Scenario("the same id comes with another body", (1, 1, 1), dead=1),
    "announced": Scenario("announced, kill -9 after the effect", (1, 1, 1), ("after effect", KILL, 0),
                          consumer="transfers", state="PARKED", dead=1),
    "redriven": Scenario("the same, then redriven", (1, 1, 1), ("after effect", KILL, 0),
                         consumer="transfers", state="PARKED", dead=2, redriven=True),
    "told": Scenario("the same, by a consumer that may repeat", (2, 1, 1), ("after effect", KILL, 0),
                     consumer="refunds", dead=1, redriven=True),
    "unprotected": Scenario("announced, once the policy parks", (1, 1, 1), consumer="gifts"),
}
FIRST_STATE = {"told": "PARKED", "unprotected": "RECEIVED"}


class World:
    """The consumers' processes and what can be asked about their messages."""

    def __init__(self, running, url, ledger, hop):
        self.running, self.url, self.hop = running, url, hop
        self.admin = admin_rpc.AdminServiceStub(grpc.insecure_channel(ledger))
        self.sinks = Sinks(running.path / "sinks.db")
        self.done = running.path / "done"
        self.done.mkdir()
        self.exits = {}  # of each process that ended
        self.told_twice = False
        plan = {name: scenario.fault for name, scenario in SCENARIOS.items() if scenario.fault}
        self.environment = {**WITH_PACKAGE, "FAULTS": json.dumps(plan), "FAULTS_DONE": str(self.done)}
        self.workers = {}
        for consumer, all_of_it in WORKERS.items():
            for more in all_of_it:
                self.workers[self.worker(consumer, more)] = (consumer, more)

    def worker(self, consumer, more):
        return self.running.start(
            "consumer", sys.executable, ROOT / "examples" / "consumer" / "consumer.py", "--nats", self.url,
            "--ledger", self.hop.address, "--sinks", self.running.path / "sinks.db", "--ack-wait", 2,
            "--consumer", consumer, *more, environment=self.environment)

    def hit(self, name):
        """The process that the fault of a message has hit."""
        file = self.done / name
        return int(file.read_text() or 0) if file.exists() else None

    def supervise(self):
        """Starts a worker for each that has ended; one that stands still is left so."""
        for ended in [one for one in self.workers if one.poll() is not None]:
            self.exits[ended.pid] = ended.returncode
            hit = [name for name in SCENARIOS if self.hit(name) == ended.pid]
            assert hit, f"no fault hit this one, and it ended with {ended.returncode}: {self.running.log('consumer')}"
            consumer, more = self.workers.pop(ended)
            self.workers[self.worker(consumer, more)] = (consumer, more)
        if (pid := self.hit("twice")) and not self.told_twice and f"/{pid} stops" in self.running.log("consumer"):
            os.kill(pid, signal.SIGTERM)
            self.told_twice = True

    def entry(self, name):
        key = pb.EntryKey(consumer=SCENARIOS[name].consumer, source="shop/checkout", id=name)
        try:
            return self.admin.GetEntry(admin_pb.GetEntryRequest(key=key), timeout=5).entry
        except grpc.RpcError:
            return admin_pb.Entry()

    def reach(self, what, states, seconds):
        """Waits until the entries are in these states."""
        def elsewhere():
            self.supervise()
            now = {name: pb.EntryState.Name(self.entry(name).state) for name in states}
            return {name: state for name, state in now.items() if state != f"ENTRY_STATE_{states[name]}"}

        try:
            wait_for(what, lambda: not elsewhere(), seconds)
        except AssertionError as error:
            said = self.running.log("consumer")[-4000:]
            raise AssertionError(f"{error}; still elsewhere: {elsewhere()}\n{said}") from None

    def redrive(self, name):
        entry = self.entry(name)
        self.admin.RedriveEntry(admin_pb.RedriveEntryRequest(
            key=entry.key, request_id=str(uuid.uuid4()), expected_version=entry.version, reason="looked up"), timeout=5)

    def park_from_now_on(self, consumer):
        self.admin.SetPolicy(admin_pb.SetPolicyRequest(
            consumer=consumer, request_id=str(uuid.uuid4()), reason="its effects are announced",
            policy=admin_pb.Policy(on_expiry=pb.ON_EXPIRY_PARK_IF_STARTED)), timeout=5)

    async def left(self):
        """How many messages are not acknowledged yet."""
        broker = await nats.connect(self.url)
        stream = broker.jetstream()
        infos = [await stream.consumer_info("EVENTS", consumer) for consumer in WORKERS]
        await broker.close()
        return sum(info.num_pending + info.num_ack_pending for info in infos)

    async def dead_letters(self):
        """The ids of the dead letters; None of what has none."""
        broker = await nats.connect(self.url)
        inbox = await broker.jetstream().subscribe("dead.>", ordered_consumer=True)
        ids, pending = [], (await broker.jetstream().stream_info("DEAD")).state.messages
        for _ in range(pending):
            ids.append(json.loads((await inbox.next_msg(timeout=5)).data).get("id"))
        await broker.close()
        return ids


def main():
    chosen = options(__doc__)
    if not shutil.which("nats-server"):
        sys.exit("nats-server is missing; install it: apt-get install -y nats-server")
    with Running() as running:
        policies = running.path / "policies.toml"
        policies.write_text(POLICIES)
        _, address = running.serve(chosen.binary, chosen.database_url, "--config", policies)
        port = free_port()
        running.start("broker", "nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", running.path / "broker")
        url = f"nats://127.0.0.1:{port}"
        wait_for("the broker listens", lambda: "Server is ready" in running.log("broker"))
        events = {name: cloud_event(name, scenario.kind) for name, scenario in SCENARIOS.items()}
        for name, scenario in SCENARIOS.items():
            asyncio.run(publish(url, [events[name]] * scenario.copies, scenario.consumer))
        asyncio.run(publish(url, [{"no": "CloudEvent"}]))
        hop = Hop(address, loses=["hop"], answers={"advice": NEW_ADVICE, "verdict": NEW_VERDICT})
        world = World(running, url, address, hop)
        play(world, url, events)
        sys.exit(report(world))


def play(world, url, events):
    final = {name: scenario.state for name, scenario in SCENARIOS.items()}
    world.reach("every message has been handled", {**final, **FIRST_STATE}, seconds=90)
    world.park_from_now_on("gifts")
    asyncio.run(publish(url, [{**events["changed"], "data": {"amount": 43}}]))
    for name, scenario in SCENARIOS.items():
        if scenario.redriven:
            world.redrive(name)
            asyncio.run(publish(url, [events[name]], scenario.consumer))
    world.reach("every message is completed or parked", final, seconds=60)
    # Everybody else has finished: now the zombie wakes up, and does what it was about to do.
    assert world.sinks.count("plain", "zombie") == 1
    os.kill(world.hit("zombie"), signal.SIGCONT)
    wait_for("the zombie's effect", lambda: world.supervise() or world.sinks.count("plain", "zombie") == 2)

    def all_acknowledged():
        world.supervise()
        return asyncio.run(world.left()) == 0

    wait_for("every message is acknowledged", all_acknowledged, seconds=30, every=0.3)


def shown_rows():
    """The rows of this test's table that docs/consumers.md shows."""
    page = (ROOT / "docs" / "consumers.md").read_text()
    return page.partition(SHOWN)[2].partition("```\n<!-- end -->")[0].splitlines()


def report(world):
    passed = failed = 0
    rows = [f"{'scenario':<40}" + "".join(f"{name:>15}" for name in Sinks.NAMES)]
    print(f"\n{rows[0]}")
    for name, scenario in SCENARIOS.items():
        counts = tuple(world.sinks.count(sink, name) for sink in Sinks.NAMES)
        exited = world.exits.get(world.hit(name))
        as_planned = scenario.fault is None or world.hit(name) and scenario.exits in (None, exited)
        right = counts == scenario.effects and as_planned
        passed, failed = passed + bool(right), failed + (not right)
        note = "" if right else f"   WRONG: expected {scenario.effects}, exit {scenario.exits}; it was {exited}"
        rows.append(f"{scenario.what:<40}" + "".join(f"{count:>15}" for count in counts))
        print(rows[-1] + note)
    dead = asyncio.run(world.dead_letters())
    redriven, hop = world.entry("redriven"), world.hop
    # Of the messages that the broker has only once.
    single = {name for name, one in SCENARIOS.items() if one.copies == 1 and not one.redriven} - {"changed"}
    waits, early = sorted(single & set(hop.waits)), sorted(single & set(hop.early))
    for what, right in {
        "the fenced sink refused the zombie's token": world.sinks.count("refused", "zombie") == 1,
        "each message is dead-lettered as often as it was given up":
            all(dead.count(name) == one.dead for name, one in SCENARIOS.items()),
        "a message without an id is dead-lettered": dead.count(None) == 1,
        "who fails until it is parked has used its attempts":
            world.entry("poison").cause == pb.PARK_CAUSE_ATTEMPTS_EXHAUSTED,
        "an announced effect that nobody settled is parked as unknown":
            world.entry("announced").cause == pb.PARK_CAUSE_EFFECT_UNKNOWN,
        "redriven, the consumer parks it again, without the effect":
            (redriven.cause, redriven.prior_effect_started) == (pb.PARK_CAUSE_CONSUMER, True),
        "docs/consumers.md shows rows of this table": len(shown_rows()) > 1 and set(shown_rows()) <= set(rows),
        "the hop has lost a Complete": hop.lost == {"hop"},
        "the hop has answered as a newer ledger": hop.answered == {"advice", "verdict"},
        f"no message is claimed before it is due (told to wait: {', '.join(waits)})": "flaky" in waits and not early,
    }.items():
        passed, failed = passed + right, failed + (not right)
        print(f"{'ok' if right else 'WRONG'}: {what}")
    print(f"{passed} passed, {failed} failed")
    if failed:
        print(world.running.log("consumer")[-4000:])
    return 1 if failed else 0


if __name__ == "__main__":
    main()
