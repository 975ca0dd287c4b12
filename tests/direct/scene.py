"""What happens to three servers while clients of two libraries are at work, and what must be true of it."""

import os
import signal
import sys
import time
import uuid

from running import wait_for
from server import SERVING

import grpc
from stubs import pb, rpc

DRAIN_MAX = 20
# At most one call of so many fails when servers are killed, and one in a run that has fewer.
ONE_OF = 100_000
# Until gRPC connects again: it waits up to two minutes where it has failed often.
CONNECTED = 60


class Scene:
    """`programs`: the consumers at work, of one library each."""

    def __init__(self, servers, programs, size, chance):
        self.servers, self.programs, self.size, self.chance = servers, programs, size, chance
        self.found = {program.library: [] for program in programs}
        self.told = time.monotonic()

    def all_serve_all(self):
        for server in self.servers:
            self.serves_all(server)

    def serves_all(self, server):
        """Each client has its own connection: whoever has not found back does not know the server yet."""
        names = {name for program in self.programs for name in program.names}
        wait_for(f"{server.name} gets calls of each client", lambda: names <= server.claims().keys(), seconds=CONNECTED)

    def restarts(self):
        before = self.counts()
        for number in range(self.size):
            self.progress("restarts", number)
            server = self.servers[number % len(self.servers)]
            server.process.send_signal(signal.SIGTERM)
            wait_for("it says that it drains", lambda: server.health("accepting") != SERVING)
            # It serves on for `drain_wait`: only clients that watch its health leave it alone.
            self.leave_alone(server)
            assert server.process.wait(timeout=DRAIN_MAX) == 0, "it ended in disorder"
            server.start()
            self.serves_all(server)
        self.judge(before, "restarts", lambda _: 0)

    def leave_alone(self, server):
        """While the others answer fifty calls of each program this one answers none."""
        until = time.monotonic() + 4
        while True:
            before = server.claims()
            self.others_go_on(50)
            after = server.claims()
            callers = [one.library for one in self.programs if any(after[name] > before[name] for name in one.names)]
            if not callers:
                return
            assert time.monotonic() < until, f"what drains still gets calls of {callers}"

    def kills(self):
        before = self.counts()
        for number in range(self.size):
            self.progress("kills", number)
            server = self.chance.choice(self.servers)
            # Not always the same time after the clients have found back.
            time.sleep(self.chance.random() / 2)
            server.process.kill()
            server.process.wait()
            self.others_go_on(400)
            server.start()
            self.serves_all(server)
        self.judge(before, "kills", lambda calls: max(1, calls // ONE_OF))

    def others_go_on(self, calls):
        for program in self.programs:
            until = program.sofar().calls + calls
            wait_for(f"{program.library} gets answers", lambda: program.sofar().calls >= until)

    def counts(self):
        return [program.sofar() for program in self.programs]

    def judge(self, before, harm, may_fail):
        """Says of every program what it found, before it says what is wrong."""
        wrong = []
        for program, old, new in zip(self.programs, before, self.counts()):
            failed, calls = new.failed - old.failed, new.calls - old.calls
            told = f"{self.size} {harm}: {failed} of {calls} calls failed"
            self.found[program.library].append(told)
            if failed > may_fail(calls) or new.given_up:
                wrong.append(f"{program.library}: {told}, {new.given_up} for good: {new.failures}")
        assert not wrong, "; ".join(wrong)

    def deliver_all_again(self):
        """Each message has had its effect once, and whoever gets it now is told so."""
        for program in self.programs:
            version, counts, messages = program.end()
            wrong = [one for one in messages if one["effects"] != 1 or one["end"] != "completed"]
            assert messages and not wrong, f"{program.library}, {len(wrong)} of {len(messages)}: {wrong[:3]}"
            lost = self.lost(messages)
            assert not lost, f"{program.library}: completed and not remembered: {lost[:3]}"
            self.found[program.library].insert(0, f"{program.library} {version}")
            effects = sum(one["effects"] for one in messages)
            self.found[program.library].append(f"{len(messages)} messages, delivered three times, {effects} effects")
            self.found[program.library].append(f"slowest call {counts.slowest_ms} ms")

    def lost(self, messages):
        """Those that the ledger does not answer as done, each with the result of its own effect."""
        lost = []
        with grpc.insecure_channel(self.servers[0].address) as channel:
            ledger = rpc.LedgerServiceStub(channel)
            for at in range(0, len(messages), 1000):
                some = messages[at : at + 1000]
                keys = [pb.EntryKey(consumer=one["consumer"], source="tests", id=one["id"]) for one in some]
                requests = [pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="the end") for key in keys]
                answers = ledger.BatchClaim(pb.BatchClaimRequest(requests=requests), timeout=30).responses
                lost += [one for one, answer in zip(some, answers) if answer.completed.result != one["id"].encode()]
        return lost

    def progress(self, harm, number):
        if os.environ.get("LEDGER_PROOF_PROGRESS") and time.monotonic() - self.told > 2:
            self.told = time.monotonic()
            calls = {program.library: program.sofar().calls for program in self.programs}
            print(f"direct: {number} of {self.size} {harm}; calls: {calls}", file=sys.stderr, flush=True)
