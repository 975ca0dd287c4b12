"""What a replay leaves over in a live consumer, on a real broker: the name of a run that nobody has registered or that
is closed, a policy that still says SUPPRESS. No message is acknowledged and none is processed in a run that is not
open; the operator sees it; and the messages go on once the run is registered, or its name is taken away.
"""

import asyncio
import json
import re
import shutil
import signal
import sys
import urllib.request
import uuid
from dataclasses import dataclass

import nats
from running import ROOT, WITH_PACKAGE, Running, free_port, options, wait_for

import grpc
from google.protobuf.duration_pb2 import Duration
from producer import cloud_event, publish
from sinks import Sinks
from stubs import admin_pb, admin_rpc, pb, rpc

MESSAGES = 4  # of each consumer
WITHIN = 90  # seconds: a refused message comes again after the 30 seconds that the ledger asks for
RUN = "2026-11-view"
FORBID, SUPPRESS, REBUILD = admin_pb.REPLAY_MODE_FORBID, admin_pb.REPLAY_MODE_SUPPRESS, admin_pb.REPLAY_MODE_REBUILD
UNKNOWN, CLOSED = "REPLAY_RUN_UNKNOWN", "REPLAY_RUN_CLOSED"


@dataclass
class Case:
    what: str
    mode: int  # the policy's
    before: str  # what became of the run before the consumer started: nothing, created, closed
    run: str = RUN  # the name that the consumer was started with
    refused: str | None = None  # why its claims are refused
    help: str | None = None  # what an operator does then: create the run, or start the consumer without its name
    effects: int = 1  # of each message, in the end
    stored: str | None = ""  # in the entries of which run the messages are then: live or the run's; None: nowhere


CASES = {
    "unknown-suppress": Case("a name that nobody registered, policy SUPPRESS; registered", SUPPRESS, "nothing",
                             refused=UNKNOWN, help="create", effects=0, stored=None),
    "unknown-rebuild": Case("a name that nobody registered, policy REBUILD; registered", REBUILD, "nothing",
                            refused=UNKNOWN, help="create", stored=RUN),
    "unknown-forbid": Case("a name that nobody registered, policy FORBID; taken away", FORBID, "nothing",
                           refused=UNKNOWN, help="without"),
    "unknown-live": Case("a name that nobody registered, policy SUPPRESS; taken away", SUPPRESS, "nothing",
                         refused=UNKNOWN, help="without"),
    "closed-suppress": Case("the name of a closed run, policy SUPPRESS; taken away", SUPPRESS, "closed",
                            refused=CLOSED, help="without"),
    "closed-rebuild": Case("the name of a closed run, policy REBUILD; taken away", REBUILD, "closed",
                           refused=CLOSED, help="without"),
    "policy-alone": Case("policy SUPPRESS, and no name", SUPPRESS, "nothing", run=""),
    "policy-and-run": Case("policy SUPPRESS and an open run, and no name", SUPPRESS, "created", run=""),
    "suppressed": Case("the name of an open run, policy SUPPRESS", SUPPRESS, "created", effects=0, stored=None),
    "rebuilt": Case("the name of an open run, policy REBUILD", REBUILD, "created", stored=RUN),
}


class World:
    """A broker, a server, the consumers, and what can be asked of each."""

    def __init__(self, running, chosen):
        self.running = running
        self.observed = f"127.0.0.1:{free_port()}"
        _, self.ledger = running.serve(chosen.binary, chosen.database_url, "--observe-listen", self.observed,
                                       "--log-format", "json")
        channel = grpc.insecure_channel(self.ledger)
        self.admin, self.claims = admin_rpc.AdminServiceStub(channel), rpc.LedgerServiceStub(channel)
        port = free_port()
        running.start("broker", "nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", running.path / "broker")
        self.url = f"nats://127.0.0.1:{port}"
        wait_for("the broker listens", lambda: "Server is ready" in running.log("broker"))
        self.sinks = Sinks(running.path / "sinks.db")
        self.workers = {}

    def prepare(self, name, case):
        self.admin.SetPolicy(admin_pb.SetPolicyRequest(
            consumer=name, request_id=str(uuid.uuid4()), reason="a replay",
            policy=admin_pb.Policy(replay=case.mode, reclaim_grace=Duration(nanos=200_000_000))), timeout=5)
        if case.before != "nothing":
            self.create(name)
        if case.before == "closed":
            self.close(name)
        asyncio.run(publish(self.url, [cloud_event(one) for one in ids(name)], name))

    def create(self, name):
        self.admin.CreateReplayRun(admin_pb.CreateReplayRunRequest(
            consumer=name, replay_run=RUN, request_id=str(uuid.uuid4()), reason="a replay"), timeout=5)

    def close(self, name):
        self.admin.CloseReplayRun(admin_pb.CloseReplayRunRequest(
            consumer=name, replay_run=RUN, request_id=str(uuid.uuid4()), reason="the replay is over"), timeout=5)

    def start(self, name, run):
        self.workers[name] = self.running.start(
            name, sys.executable, ROOT / "examples" / "consumer" / "consumer.py", "--nats", self.url, "--ledger",
            self.ledger, "--sinks", self.running.path / "sinks.db", "--ack-wait", 5, "--consumer", name,
            "--replay-run", run, environment=WITH_PACKAGE)

    def stop(self, name):
        self.workers[name].send_signal(signal.SIGTERM)
        assert self.workers[name].wait(timeout=20) == 0, self.running.log(name)

    def refusal(self, name, run):
        """Why a claim of a message in a run is refused, and the advice, as the trailers of an error say both."""
        key = pb.EntryKey(consumer=name, source="shop/checkout", id=ids(name)[0], replay_run=run)
        try:
            answer = self.claims.Claim(pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="a person"), timeout=5)
        except grpc.RpcError as error:
            trailers = dict(error.trailing_metadata())
            return trailers["idempotency-ledger-reason"], trailers["idempotency-ledger-advice"]
        raise AssertionError(f"{name}: not refused: {answer}")

    def metrics(self, consumer):
        """How many claims of runs of a consumer were answered how."""
        with urllib.request.urlopen(f"http://{self.observed}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        counted = {}
        for line in lines:
            labels = re.fullmatch(r"idempotency_ledger_replay_claims_total\{(.*)\} (\S+)", line)
            if labels and f'consumer="{consumer}"' in labels[1]:
                assert 'replay="true"' in labels[1] and RUN not in line, line
                counted[re.search(r'verdict="(\w+)"', labels[1])[1]] = float(labels[2])
        return {verdict: count for verdict, count in counted.items() if count}

    def logged(self, consumer, event):
        """Whether the server's log tells of a claim in the run of this consumer."""
        told = [json.loads(line) for line in self.running.log("server").splitlines() if line.startswith("{")]
        return any((one.get("event"), one.get("consumer"), one.get("replay_run")) == (event, consumer, RUN) for one in told)

    def left(self, name):
        """How many messages the broker has that the consumer has not acknowledged."""
        async def ask():
            broker = await nats.connect(self.url)
            info = await broker.jetstream().consumer_info("EVENTS", name)
            await broker.close()
            return info.num_pending + info.num_ack_pending

        return asyncio.run(ask())

    def stored(self, name):
        """In the entries of which runs all messages of a consumer are completed; empty: of none."""
        found = set()
        for run in ("", RUN):
            keys = [pb.EntryKey(consumer=name, source="shop/checkout", id=one, replay_run=run) for one in ids(name)]
            states = []
            for key in keys:
                try:
                    states.append(self.admin.GetEntry(admin_pb.GetEntryRequest(key=key), timeout=5).entry.state)
                except grpc.RpcError as error:
                    assert error.code() == grpc.StatusCode.NOT_FOUND, error
            assert states in ([], [pb.ENTRY_STATE_COMPLETED] * MESSAGES), f"{name}, run {run!r}: {states}"
            found |= {run} if states else set()
        return found

    def effects(self, name):
        """How many effects each message of a consumer has had."""
        return [self.sinks.count("plain", one) for one in ids(name)]


def ids(name):
    return [f"{name}-{at}" for at in range(MESSAGES)]


def stands(world, name, case):
    """The consumer is refused each message: nothing is acknowledged, nothing done, and it is seen."""
    wait_for(f"{name}: every message is refused", lambda: world.metrics(name).get("refused", 0) >= MESSAGES, WITHIN)
    assert world.workers[name].poll() is None, f"{name} has ended: {world.running.log(name)}"
    assert world.left(name) == MESSAGES, f"{name}: the broker has {world.left(name)} messages left"
    assert world.effects(name) == [0] * MESSAGES, f"{name}: {world.effects(name)}"
    assert set(world.metrics(name)) == {"refused"}, f"{name}: {world.metrics(name)}"
    assert world.stored(name) == set(), f"{name}: there are entries"
    assert world.logged(name, "replay_refused"), f"{name}: no line in the log"
    assert world.refusal(name, case.run) == (case.refused, "RETRY_LATER"), name


def helped(world, name, case):
    if case.help == "create":
        world.create(name)
    if case.help == "without":
        world.stop(name)
        assert world.left(name) == MESSAGES, f"{name}: a consumer that stops acknowledges nothing"
        world.start(name, "")


def goes_on(world, name, case):
    """All messages are acknowledged, each with the effects that it should have, and never one more."""
    wait_for(f"{name}: every message is acknowledged", lambda: world.left(name) == 0, WITHIN, every=0.2)
    assert world.effects(name) == [case.effects] * MESSAGES, f"{name}: {world.effects(name)}"
    expected = set() if case.stored is None else {case.stored}
    assert world.stored(name) == expected, f"{name}: entries of {world.stored(name)}, expected {expected}"
    suppressed = MESSAGES if case.stored is None else 0
    assert world.metrics(name).get("suppressed", 0) == suppressed, f"{name}: {world.metrics(name)}"
    assert world.logged(name, "suppressed") == bool(suppressed), f"{name}: what the log says of suppressed messages"


def closed_amid(world, name, case, late):
    """A suppressing run is closed while its consumer goes on: what comes under its name from then on stays."""
    goes_on(world, name, case)
    world.close(name)
    asyncio.run(publish(world.url, [cloud_event(one) for one in late], name))
    wait_for(f"{name}: every message is refused", lambda: world.metrics(name).get("refused", 0) >= MESSAGES, WITHIN)
    suppressed, left = world.metrics(name)["suppressed"], world.left(name)
    assert (suppressed, left) == (MESSAGES, MESSAGES), f"{name}: {suppressed} suppressed, {left} left of {MESSAGES}"
    assert world.refusal(name, RUN) == (CLOSED, "RETRY_LATER")
    world.stop(name)
    world.start(name, "")


def main():
    chosen = options(__doc__)
    if not shutil.which("nats-server"):
        sys.exit("nats-server is missing; install it: apt-get install -y nats-server")
    with Running() as running:
        world = World(running, chosen)
        amid, late = "closed-amid", [f"closed-amid-late-{at}" for at in range(MESSAGES)]
        suppressing = CASES["suppressed"]
        for name, case in {**CASES, amid: suppressing}.items():
            world.prepare(name, case)
            world.start(name, case.run)
        for name in world.workers:
            wait_for(f"{name} has subscribed", lambda name=name: " consumes" in world.running.log(name))
        closed_amid(world, amid, suppressing, late)
        for name, case in CASES.items():
            if case.refused:
                stands(world, name, case)
                helped(world, name, case)
        for name, case in CASES.items():
            goes_on(world, name, case)
            before = f"refused {case.refused}, then " if case.refused else ""
            print(f"ok: {case.what}: {before}{case.effects} effects each")
        wait_for(f"{amid}: every message is acknowledged", lambda: world.left(amid) == 0, WITHIN, every=0.2)
        assert [world.sinks.count("plain", one) for one in late] == [1] * MESSAGES, "what came after the close"
        assert world.effects(amid) == [0] * MESSAGES, "what came before it"
        print(f"ok: a suppressing run, closed amid the work of its consumer: suppressed; then refused {CLOSED}, then 1 effect each")
    print(f"{len(CASES) + 1} passed, 0 failed")


if __name__ == "__main__":
    main()
