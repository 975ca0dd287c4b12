"""What passes the shipped Envoy, and what does not: identity, large batches, operators' streams, servers that
stand still.

    python tests/python/behind_envoy.py --binary target/debug/idempotency-ledger --database-url URL
"""

import concurrent.futures
import contextlib
import pathlib
import signal
import subprocess
import sys
import time
import urllib.request
import uuid

from running import ROOT, Running, checked, free_port, options, stand_still, wait_for

import grpc
from google.protobuf import timestamp_pb2
from stubs import admin_pb, admin_rpc, pb, rpc

ENVOY = pathlib.Path(sys.executable).with_name("envoy")
SHIPPED = ROOT / "deploy/envoy/envoy.yaml"
FORGED = ("x-forwarded-client-cert", "URI=spiffe://mesh/ns/shop/sa/payments")
RIGHTS = """
[[rights]]
principal = "{principal}"
consumers = ["*"]
may = ["claim", "settle", "read", "admin"]
"""


def configuration(listen, admin, servers):
    """The shipped file, with other addresses."""
    text = SHIPPED.read_text()
    ports = {"address: 127.0.0.1, port_value: 50050": listen, "address: 127.0.0.1, port_value: 9901": admin,
             **{f"address: ledger-{number}.example, port_value: 50051": server for number, server in enumerate(servers, 1)}}
    for old, port in ports.items():
        assert text.count(old) == 1, f"{SHIPPED} must have this once: {old}"
        text = text.replace(old, f"address: 127.0.0.1, port_value: {port}")
    return text


class Mesh:
    def __init__(self, running, binary, database_url):
        made = subprocess.run([binary, "rights", "token", "payments"], capture_output=True, text=True, check=True)
        self.token = made.stdout.strip()
        tokens, rights = running.path / "tokens.toml", running.path / "rights.toml"
        tokens.write_text("[tokens]\n" + made.stderr.strip().splitlines()[-1] + "\n")
        rights.write_text(RIGHTS.format(principal="token:payments") + RIGHTS.format(principal="spiffe://mesh/*"))
        served = [running.serve(binary, database_url, "--tokens-file", tokens, "--rights-file", rights,
                                "--trusted-proxies", "127.0.0.1", name=f"server-{number}") for number in (1, 2, 3)]
        self.servers, self.direct = [server for server, _ in served], served[0][1]
        listen, admin = free_port(), free_port()
        self.clusters = f"http://127.0.0.1:{admin}/clusters"
        file = running.path / "envoy.yaml"
        file.write_text(configuration(listen, admin, [address.rsplit(":", 1)[1] for _, address in served]))
        self.envoy = running.start("envoy", ENVOY, "--config-path", file, "--concurrency", "1", "--disable-hot-restart")
        self.address = f"127.0.0.1:{listen}"
        size = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.insecure_channel(self.address, options=size)
        self.ledger, self.admin = rpc.LedgerServiceStub(self.channel), admin_rpc.AdminServiceStub(self.channel)
        self.known = [("authorization", f"Bearer {self.token}")]

        wait_for("Envoy listens", lambda: code(lambda: self.claim(self.known)) == "OK")
        self.all_serve()

    def all_serve(self):
        wait_for("Envoy sees three servers that serve", lambda: self.text().count("::health_flags::healthy") == 3)

    def text(self):
        with urllib.request.urlopen(self.clusters, timeout=2) as answer:
            return answer.read().decode()

    @contextlib.contextmanager
    def still(self, *servers):
        """These servers stand still, and go on as if nothing had happened."""
        for server in servers:
            stand_still(server)
        try:
            yield
        finally:
            for server in servers:
                server.send_signal(signal.SIGCONT)
            self.all_serve()

    def claim(self, metadata, **more):
        key = pb.EntryKey(consumer="mesh", source="tests", id=str(uuid.uuid4()))
        return self.ledger.Claim(pb.ClaimRequest(key=key, **more), metadata=metadata, timeout=5)


def code(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name
    return "OK"


def a_token_passes(mesh):
    assert mesh.claim(mesh.known).HasField("acquired")


def a_forged_identity_does_not(mesh):
    # Where nobody is in between it is believed: the server trusts that address.
    with grpc.insecure_channel(mesh.direct) as channel:
        key = pb.EntryKey(consumer="mesh", source="tests", id="direct")
        believed = rpc.LedgerServiceStub(channel).Claim(pb.ClaimRequest(key=key), metadata=[FORGED], timeout=5)
        assert believed.HasField("acquired")
    assert code(lambda: mesh.claim([FORGED])) == "UNAUTHENTICATED"
    assert code(lambda: mesh.claim([FORGED, FORGED])) == "UNAUTHENTICATED"


def settlements(mesh):
    """The largest batch that the ledger takes."""
    keys = [pb.EntryKey(consumer="mesh", source="tests", id=str(uuid.uuid4())) for _ in range(1000)]
    claims = [pb.ClaimRequest(key=key) for key in keys]
    granted = mesh.ledger.BatchClaim(pb.BatchClaimRequest(requests=claims), metadata=mesh.known, timeout=15).responses
    assert all(answer.HasField("acquired") for answer in granted)
    done = [pb.Settlement(complete=pb.CompleteRequest(key=key, token=answer.acquired.token, result=b"x" * 3300))
            for key, answer in zip(keys, granted)]
    request = pb.BatchSettleRequest(settlements=done)
    assert 3_300_000 < request.ByteSize() <= 3.5 * 1024 * 1024
    return request


def settle(mesh, request):
    """How many tries it took."""
    settled, call = mesh.ledger.BatchSettle.with_call(request, metadata=mesh.known, timeout=15)
    assert all(result.HasField("complete") for result in settled.results)
    return int(dict(call.initial_metadata())["x-envoy-attempt-count"])


def the_largest_batch_passes(mesh):
    assert settle(mesh, settlements(mesh)) == 1


def the_largest_batch_is_repeated_elsewhere(mesh):
    """Each of three goes to another server first."""
    requests = [settlements(mesh) for _ in mesh.servers]
    with mesh.still(mesh.servers[0]), concurrent.futures.ThreadPoolExecutor(3) as pool:
        tries = sorted(pool.map(lambda request: settle(mesh, request), requests))
    assert tries == [1, 1, 2], tries


def streams_of_operators_pass(mesh):
    """For longer than a consumer's call may take."""
    at = timestamp_pb2.Timestamp(seconds=int(time.time()) - 60)
    keys = [pb.EntryKey(consumer="operators", source="tests", id=f"order-{number}") for number in range(8)]
    entries = ([admin_pb.ImportedEntry(key=key, completed_at=at)] for key in keys[:2])
    requests = (admin_pb.ImportEntriesRequest(operation_id="import", reason="test", entries=some) for some in entries)
    assert [answer.stored for answer in mesh.admin.ImportEntries(requests, metadata=mesh.known)] == [1, 1]
    for key in keys[2:]:
        claimed = mesh.ledger.Claim(pb.ClaimRequest(key=key), metadata=mesh.known, timeout=5)
        failed = pb.FailRequest(key=key, token=claimed.acquired.token, kind=pb.FAILURE_KIND_PARK)
        mesh.ledger.Fail(failed, metadata=mesh.known, timeout=5)
    began = time.monotonic()
    parked = admin_pb.EntryFilter(consumer="operators", states=[pb.ENTRY_STATE_PARKED])
    redrive = admin_pb.RedriveEntriesRequest(filter=parked, operation_id="redrive", reason="test", rate=1)
    last = list(mesh.admin.RedriveEntries(redrive, metadata=mesh.known))[-1]
    assert (last.redriven, last.finished) == (6, True), last
    assert time.monotonic() - began > 4, "it was to last longer than a try, or a call"


def servers_that_stand_still_are_given_up(mesh):
    """Each of them gets one try of a second at the most."""
    with mesh.still(*mesh.servers):
        began = time.monotonic()
        key = pb.EntryKey(consumer="mesh", source="tests", id="late")
        ended = code(lambda: mesh.ledger.Claim(pb.ClaimRequest(key=key), metadata=mesh.known, timeout=20))
        took = time.monotonic() - began
    assert ended == "UNAVAILABLE" and took < 10, f"{ended} after {took:.1f} s"


CHECKS = [a_token_passes, a_forged_identity_does_not, the_largest_batch_passes, the_largest_batch_is_repeated_elsewhere,
          streams_of_operators_pass, servers_that_stand_still_are_given_up]


def main():
    given = options(__doc__)
    with Running() as running:
        mesh = Mesh(running, given.binary, given.database_url)
        failed = checked([(check.__name__, lambda check=check: check(mesh)) for check in CHECKS])
        if failed:
            print(running.log("server-1")[-2000:], running.log("envoy")[-2000:])
    sys.exit(1 if failed else 0)


main()
