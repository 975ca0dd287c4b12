"""Clients that reach three servers themselves, by nothing but the service config that is shipped: servers are restarted
and killed under load. No call may fail while they are restarted, and one of 100,000 when they are killed; no message may be
lost or done twice.

    python tests/python/direct.py --binary target/debug/idempotency-ledger --database-url URL
"""

import collections
import signal
import subprocess
import sys
import threading
import urllib.request
import uuid

from running import ROOT, Running, checked, free_port, options, wait_for

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from stubs import pb, rpc

CONFIG = ROOT / "deploy/clients/service-config.json"
CLIENTS = 8
RESTARTS = KILLS = 3
# How often a call is repeated by its caller, as docs/clients.md, rule 4, says.
REPEATS = 3
DRAIN_MAX = 20
# At most one call of so many fails when servers are killed.
ONE_OF = 100_000


class Server:
    """One of three, always at the same address."""

    def __init__(self, running, binary, database_url, name):
        self.running, self.binary, self.database_url, self.name = running, binary, database_url, name
        self.address, self.observed = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.start()

    def start(self):
        self.process = self.running.start(self.name, self.binary, "serve", "--listen", self.address, "--observe-listen",
                                          self.observed, "--database-url", self.database_url)
        wait_for(f"{self.name} serves", lambda: self.health("") == health_pb2.HealthCheckResponse.SERVING)

    def health(self, service):
        with grpc.insecure_channel(self.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            try:
                return health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=2).status
            except grpc.RpcError:
                return None

    def handled(self):
        """How many calls of consumers it has answered."""
        with urllib.request.urlopen(f"http://{self.observed}/metrics", timeout=2) as answer:
            lines = answer.read().decode().splitlines()
        counted = [line for line in lines if line.startswith("grpc_server_handled_total{") and "LedgerService" in line]
        return sum(float(line.rsplit(" ", 1)[1]) for line in counted)


class Load:
    """Consumers at work: each claims a message, and completes it."""

    def __init__(self, servers):
        self.target = "ipv4:" + ",".join(server.address for server in servers)
        self.over = threading.Event()
        self.failures = collections.Counter()
        self.calls, self.given_up, self.wrong, self.done = 0, [], [], []
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self.work) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self):
        # A channel of its own, as of a process of its own. The list of addresses is no name that a call could be for.
        arguments = [("grpc.service_config", CONFIG.read_text()), ("grpc.use_local_subchannel_pool", 1),
                     ("grpc.default_authority", "ledger")]
        with grpc.insecure_channel(self.target, options=arguments) as channel:
            ledger = rpc.LedgerServiceStub(channel)
            while not self.over.is_set():
                self.deliver(ledger, pb.EntryKey(consumer="direct", source="tests", id=str(uuid.uuid4())))

    def deliver(self, ledger, key):
        claimed = self.call(ledger.Claim, pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="direct"))
        if claimed is None:
            return
        if claimed.WhichOneof("verdict") != "acquired":
            self.wrong.append(f"a new message is answered {claimed}")
            return
        if self.call(ledger.Complete, pb.CompleteRequest(key=key, token=claimed.acquired.token)) is not None:
            self.done.append(key)

    def call(self, method, request):
        """No deadline of its own: the service config has one."""
        for _ in range(1 + REPEATS):
            with self._lock:
                self.calls += 1
            try:
                return method(request)
            except grpc.RpcError as error:
                trailers = dict(error.trailing_metadata() or ())
                with self._lock:
                    self.failures[f"{error.code().name}: {trailers.get('idempotency-ledger-reason', error.details())}"] += 1
        self.given_up.append(str(request))
        return None

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def main():
    given = options(__doc__)
    subprocess.run([given.binary, "migrate", "--database-url", given.database_url], check=True, stdout=subprocess.DEVNULL)
    with Running() as running:
        servers = [Server(running, given.binary, given.database_url, f"server-{number}") for number in (1, 2, 3)]
        load = Load(servers)
        try:
            failed = checked([
                ("all servers get calls", lambda: all_get_calls(servers)),
                (f"{RESTARTS} restarts fail no call, and what drains gets none", lambda: restart(servers, load)),
                (f"{KILLS} kills fail hardly a call, and none for good", lambda: kill(servers, load)),
                ("nothing is lost, nothing is done twice", lambda: end(servers, load)),
            ])
        finally:
            load.end()
    print(f"{load.calls} calls, failed: {dict(load.failures) or 'none'}")
    sys.exit(1 if failed else 0)


def all_get_calls(servers):
    for server in servers:
        wait_for(f"{server.name} gets calls", lambda: server.handled() > 20)


def restart(servers, load):
    before = load.failures.total()
    for number in range(RESTARTS):
        server = servers[number % len(servers)]
        server.process.send_signal(signal.SIGTERM)
        wait_for("it says that it drains", lambda: server.health("accepting") != health_pb2.HealthCheckResponse.SERVING)
        # It serves on for `drain_wait`: only clients that watch its health leave it alone.
        wait_for("what drains gets no calls", lambda: quiet(server, load), seconds=4)
        assert server.process.wait(timeout=DRAIN_MAX) == 0, "it ended in disorder"
        server.start()
        wait_for("it gets calls again", lambda: server.handled() > 20)
    assert load.failures.total() == before, f"calls failed: {dict(load.failures)}"


def quiet(server, load):
    """While the others answer fifty calls this one answers none."""
    counted, calls = server.handled(), load.calls
    wait_for("the others get calls", lambda: load.calls > calls + 50)
    return server.handled() == counted


def kill(servers, load):
    before, calls_before = load.failures.total(), load.calls
    for number in range(KILLS):
        server = servers[number % len(servers)]
        server.process.kill()
        server.process.wait()
        calls = load.calls
        wait_for("the others get calls", lambda: load.calls > calls + 200)
        server.start()
        wait_for("it gets calls again", lambda: server.handled() > 20)
    failed, calls = load.failures.total() - before, load.calls - calls_before
    assert failed <= 1 + calls // ONE_OF, f"{failed} of {calls} calls failed: {dict(load.failures)}"
    assert not load.given_up, f"given up: {load.given_up[:3]}"


def end(servers, load):
    load.end()
    assert not load.wrong, load.wrong[:3]
    assert load.done, "nothing was done"
    with grpc.insecure_channel(servers[0].address) as channel:
        ledger = rpc.LedgerServiceStub(channel)
        for at in range(0, len(load.done), 1000):
            keys = load.done[at : at + 1000]
            requests = [pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="end") for key in keys]
            answers = ledger.BatchClaim(pb.BatchClaimRequest(requests=requests), timeout=30).responses
            lost = [key.id for key, answer in zip(keys, answers) if answer.WhichOneof("verdict") != "completed"]
            assert not lost, f"completed and not remembered: {lost[:3]}"


main()
