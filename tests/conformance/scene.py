"""What a scenario has at hand: a ledger, a proxy before it, subjects, a sink, and the checks that hold in all of them."""

from __future__ import annotations

import pathlib
import re
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable

import grpc
from idempotency_ledger._proto import admin_pb2 as admin
from idempotency_ledger._proto import admin_pb2_grpc as admin_rpc
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger._proto import ledger_pb2_grpc as rpc
from proxy import Fault, Proxy
from sink import Sink
from subject import Event, Subject

POLICIES = """
[policy]
lease = "1s"
reclaim_grace = "300ms"
backoff = { initial = "200ms", max = "1s", jitter = 0.0 }

[consumers."parking"]
lease = "1s"
reclaim_grace = "300ms"
on_expiry = "PARK_IF_STARTED"
backoff = { initial = "200ms", max = "1s", jitter = 0.0 }
"""
LEASE, GRACE = 1.0, 0.3
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

Scenario = Callable[["Scene"], None]


@dataclass(frozen=True)
class Entry:
    """A scenario of the table: the rules of docs/clients.md that it fails without, and what a language needs for it."""

    name: str
    rules: tuple[int, ...]
    run: Scenario
    needs: str | None


SCENARIOS: list[Entry] = []


def scenario(*rules: int, needs: str | None = None) -> Callable[[Scenario], Scenario]:
    """Puts a function into the table, under its own name."""
    def register(run: Scenario) -> Scenario:
        SCENARIOS.append(Entry(run.__name__, rules, run, needs))
        return run
    return register


def step(do: str, **fields: Any) -> Event:
    """A step of a handler."""
    return {"do": do, **fields}


EFFECT, PAUSE, ANNOUNCE = step("effect"), step("pause"), step("announce")


class Server:
    """A ledger in a separate process, over a file, that can be killed and started again at the same address."""

    def __init__(self, binary: str, folder: pathlib.Path, port: int, *more: str, health: tuple[str, ...] = ()) -> None:
        self.address = f"127.0.0.1:{port}"
        (folder / "ledger.toml").write_text(POLICIES)
        self._command = [binary, "serve", "--listen", self.address, "--http-listen", "off", "--observe-listen", "off",
                         "--config", str(folder / "ledger.toml"), "--database-url", f"sqlite://{folder / 'ledger.db'}", *more]
        self._health = [binary, "health", "--address", *(health or (self.address,))]
        self._log = (folder / "server.log").open("ab")
        self.start()

    def start(self) -> None:
        """Starts it, and waits until it is healthy."""
        self.process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log)
        until = time.monotonic() + 30
        while subprocess.run(self._health, capture_output=True, check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server does not start: see {self._log.name}")
            time.sleep(0.02)  # A condition of another process, which sends no event.

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()
        self.process.wait(10)


@dataclass
class Scene:
    """One scenario under way."""

    ledger: str
    command: list[str]
    environment: dict[str, str]
    folder: pathlib.Path
    binary: str
    ports: Callable[[], int]
    more: dict[str, list[str]]
    sink: Sink = field(default_factory=Sink)

    def __post_init__(self) -> None:
        self.proxy = Proxy(self.ledger)
        self._log = (self.folder / "subject.log").open("ab")
        self._subjects: list[Subject] = []
        self._servers: list[Server] = []
        self._channel = grpc.insecure_channel(self.ledger)
        self.rpc = rpc.LedgerServiceStub(self._channel)

    def new_id(self) -> str:
        """The id of a new message."""
        return f"order-{uuid.uuid4()}"

    def fault(self, method: str, do: str, **fields: Any) -> Fault:
        """Adds a fault to the proxy."""
        return self.proxy.add(Fault(method, do, **fields))

    def subject(self, consumer: str = "effects", opened: bool = True, endpoint: str | None = None,
                environment: dict[str, str] | None = None, **options: Any) -> Subject:
        """Starts a subject, with a client of this consumer unless `opened` is false."""
        new = Subject(self.command, {**self.environment, **(environment or {})}, self.sink, self._log)
        self._subjects.append(new)
        if opened:
            new.open(endpoint or self.proxy.address, consumer, **options)
        return new

    def consumer(self, example: str = "example") -> Subject:
        """An example of the package's README, by default the first one, over this ledger."""
        return self.program(example, {"LEDGER_ENDPOINT": self.proxy.address})

    def program(self, name: str, environment: dict[str, str]) -> Subject:
        """Another program of the language, which speaks the protocol as far as it needs."""
        new = Subject(self.more[name], {**self.environment, **environment}, self.sink, self._log)
        self._subjects.append(new)
        return new

    def server(self, *more: str, port: int = 0, health: tuple[str, ...] = ()) -> Server:
        """A server of the scenario's own, over a file, with more arguments."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        new = Server(self.binary, folder, port or self.ports(), *more, health=health)
        self._servers.append(new)
        return new

    def inbox(self, consumer: str | None = None) -> str:
        """A consumer, new unless it is named, whose messages may be stored; returns its name."""
        consumer = consumer or f"inbox-{uuid.uuid4()}"
        policy = admin.Policy(inbox=True)
        request = admin.SetPolicyRequest(consumer=consumer, request_id="inbox", reason="a scenario", policy=policy)
        admin_rpc.AdminServiceStub(self._channel).SetPolicy(request, timeout=15)
        return consumer

    def lookup(self, id: str, consumer: str) -> Any:
        """What the ledger shows of a message to its consumer."""
        return self.rpc.Lookup(pb.LookupRequest(key=self.key(id, consumer)), timeout=5)

    def settled(self, id: str, consumer: str, state: str = "COMPLETED", seconds: float = 30.0) -> Any:
        """Waits until a message has this state; returns what the ledger shows of it."""
        until = time.monotonic() + seconds
        while True:
            found = self.lookup(id, consumer)
            if pb.EntryState.Name(found.state) == f"ENTRY_STATE_{state}":
                return found
            check(time.monotonic() < until, f"{id} is {pb.EntryState.Name(found.state)}, and not {state}")
            time.sleep(0.05)  # A condition of another process, which sends no event.

    def rival(self, id: str, consumer: str = "effects", **fields: Any) -> Any:
        """Another consumer's Claim of a message, straight at the ledger."""
        request = pb.ClaimRequest(key=self.key(id, consumer), claim_id=str(uuid.uuid4()), owner="rival", **fields)
        return self.rpc.Claim(request, timeout=15)

    def key(self, id: str, consumer: str = "effects") -> Any:
        """The key of a message."""
        return pb.EntryKey(consumer=consumer, source="shop", id=id)

    def state(self, id: str, consumer: str = "effects") -> str:
        """The state of a message in the ledger."""
        answer = self.rpc.Lookup(pb.LookupRequest(key=self.key(id, consumer)), timeout=5)
        return str(pb.EntryState.Name(answer.state)).replace("ENTRY_STATE_", "")

    def broker_waits(self, seconds: float) -> None:
        """As a broker does that delivers again after a delay."""
        time.sleep(seconds)

    def rival_after_lease(self, id: str, consumer: str = "effects") -> Any:
        """A rival's Claim that waits in the ledger until lease and grace of the holder are over."""
        request = pb.ClaimRequest(key=self.key(id, consumer), claim_id=str(uuid.uuid4()), owner="rival")
        request.wait.FromSeconds(8)
        return self.rpc.Claim(request, timeout=15)

    def effects(self, id: str, fenced: int = 1, plain: int | None = None) -> None:
        """Checks how many effects a message has in the sinks."""
        found = {table: self.sink.count(table, id) for table in ("plain", "fenced", "keyed")}
        wanted = {"plain": fenced if plain is None else plain, "fenced": fenced, "keyed": fenced}
        check(found == wanted, f"effects are {found}, and not {wanted}")

    def always(self) -> None:
        """What holds in every scenario: rules 1, 2, 4 and 13 as far as the calls show them."""
        known: dict[str, bytes] = {}
        completed: set[int] = set()
        for call in list(self.proxy.calls):
            check(call.deadline is not None and call.deadline < 120, f"{call.method} has the deadline {call.deadline}")
            if call.method in ("Claim", "ClaimNext"):
                claim_id = call.request.claim_id
                check(bool(UUID.fullmatch(claim_id)), f"claim_id {claim_id!r} is not a random UUID")
                check(known.setdefault(claim_id, call.raw) == call.raw, "one claim_id with two different requests")
            elif call.method == "Complete":
                completed.add(call.request.token)
            elif call.method in ("Fail", "Release"):
                check(call.request.token not in completed, f"{call.method} after a Complete")

    def close(self) -> None:
        """Ends everything that the scenario has started."""
        for subject in self._subjects:
            subject.end()
        for server in self._servers:
            server.kill()
        self.proxy.stop()
        self._channel.close()
        self._log.close()


def check(truth: bool, otherwise: str) -> None:
    """Fails with the reason unless it is true."""
    if not truth:
        raise AssertionError(otherwise)


def advises(outcome: Event, advice: str, reason: str | None = None) -> None:
    """Checks the advice of an outcome, and its reason where one is given; RETRY_LATER always names a delay."""
    check(outcome["advice"] == advice, f"the advice is {outcome['advice']}, and not {advice}: {outcome}")
    check(reason is None or (outcome["reason"] or "").startswith(reason), f"the reason is {outcome['reason']!r}")
    check((outcome["delay"] > 0) == (advice == "RETRY_LATER"), f"{advice} with a delay of {outcome['delay']} s")


def same(calls: list[Any], count: int) -> None:
    """Checks that these are `count` sendings of one request, byte for byte."""
    check(len(calls) == count, f"{len(calls)} calls, and not {count}")
    check(len({call.raw for call in calls}) == 1, "a repeat is not identical to the first request")
