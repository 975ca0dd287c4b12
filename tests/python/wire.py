"""The server as a client sees it that knows nothing but the gRPC documents: grpcio with the standard
packages for health, status details and reflection."""

import inspect
import json
import signal
import subprocess
import sys
import threading
import uuid

from running import Running, checked, free_port, options, stand_still

import grpc
from google.protobuf import descriptor_pool, message_factory
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_status import rpc_status
from stubs import pb, rpc

GZIP = grpc.Compression.Gzip
SERVICES = ["idempotency.ledger.v1.LedgerService", "idempotency.ledger.v1.AdminService"]
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class Client:
    def __init__(self, server, address):
        self.server, self.address = server, address
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
        self.ledger = rpc.LedgerServiceStub(self.channel)
        self.health = health_pb2_grpc.HealthStub(self.channel)

    def raw(self, method):
        return self.channel.unary_unary(method, request_serializer=bytes, response_deserializer=bytes)


def key(message_id=None):
    return pb.EntryKey(consumer="wire", source="tests", id=message_id or str(uuid.uuid4()))


def refusal(call):
    """Calls, and returns the error with its details by type."""
    try:
        call()
    except grpc.RpcError as error:
        status = rpc_status.from_call(error)
        details = {}
        for packed in status.details if status else []:
            for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
                message = kind()
                if packed.Unpack(message):
                    details[kind.__name__] = message
        return error, details
    raise AssertionError("the call was not refused")


def health_of_every_service(client):
    for service in ["", "liveness", "accepting", *SERVICES]:
        answer = client.health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
        assert answer.status == SERVING, service


def health_checks_of_the_client_itself(client):
    """As a service config asks for: gRPC's core says that it takes gzip here, and cannot read it."""
    for service in ["", "accepting", SERVICES[0]]:
        config = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": service}}
        arguments = [("grpc.service_config", json.dumps(config)), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(client.address, options=arguments) as channel:
            claim = pb.ClaimRequest(key=key())
            answer = rpc.LedgerServiceStub(channel).Claim(claim, wait_for_ready=True, timeout=5)
        assert answer.HasField("acquired"), service


def health_of_an_unknown_service(client):
    error, _ = refusal(lambda: client.health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=5))
    assert error.code() == grpc.StatusCode.NOT_FOUND
    watch = client.health.Watch(health_pb2.HealthCheckRequest(service="nobody"))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    ended = threading.Event()
    watch.add_callback(ended.set)
    assert not ended.wait(0.5), "the stream must stay open"
    watch.cancel()


def every_violation_at_once(client):
    request = pb.ClaimRequest(key=pb.EntryKey(consumer="", source="s", id="a\nb"), claim_id="x", owner="o" * 129)
    error, details = refusal(lambda: client.ledger.Claim(request, timeout=5))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    info = details["ErrorInfo"]
    assert (info.reason, info.domain) == ("INVALID_FIELD", "idempotency.ledger.v1")
    assert info.metadata["advice"] == "RETRY_LATER"
    fields = {violation.field for violation in details["BadRequest"].field_violations}
    assert fields == {"key.consumer", "key.id", "claim_id", "owner"}, fields


def only_a_bad_key_is_dead_lettered(client):
    request = pb.ClaimRequest(key=pb.EntryKey(consumer="c", source="s", id="i" * 513))
    _, details = refusal(lambda: client.ledger.Claim(request, timeout=5))
    assert details["ErrorInfo"].metadata["advice"] == "DEAD_LETTER"


def bytes_that_are_no_message(client):
    claim = client.raw("/idempotency.ledger.v1.LedgerService/Claim")
    not_utf8 = b"\x0a\x0a\x0a\x01c\x12\x01s\x1a\x02\xff\xfe"
    for body, field in [(b"\xff\xff\xff", "request"), (not_utf8, "key.id")]:
        error, details = refusal(lambda body=body: claim(body, timeout=5))
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert details["ErrorInfo"].reason == "INVALID_FIELD"
        assert [violation.field for violation in details["BadRequest"].field_violations] == [field]


def an_oversized_message(client):
    request = pb.ClaimRequest(key=key(), fingerprint=b"x" * (4 << 20))
    error, details = refusal(lambda: client.ledger.Claim(request, timeout=10))
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert details["ErrorInfo"].reason == "TOO_LARGE"
    assert details["ErrorInfo"].metadata["advice"] == "RETRY_LATER"


def a_refused_settlement_tells_the_state(client):
    mine = key()
    token = client.ledger.Claim(pb.ClaimRequest(key=mine), timeout=5).acquired.token
    client.ledger.Complete(pb.CompleteRequest(key=mine, token=token), timeout=5)
    error, details = refusal(lambda: client.ledger.Complete(pb.CompleteRequest(key=mine, token=token - 1), timeout=5))
    assert error.code() == grpc.StatusCode.ABORTED
    metadata = details["ErrorInfo"].metadata
    assert (details["ErrorInfo"].reason, metadata["advice"], metadata["current_state"]) == (
        "LEASE_LOST", "ACK", "COMPLETED")
    # The same in words that need no decoding.
    trailers = dict(error.trailing_metadata())
    assert (trailers["idempotency-ledger-reason"], trailers["idempotency-ledger-advice"]) == ("LEASE_LOST", "ACK")
    assert trailers["grpc-retry-pushback-ms"] == "-1", trailers
    error, details = refusal(lambda: client.ledger.Complete(pb.CompleteRequest(key=key(), token=1), timeout=5))
    assert (error.code(), details["ErrorInfo"].reason) == (grpc.StatusCode.NOT_FOUND, "ENTRY_NOT_FOUND")


def a_deadline_that_is_over(client):
    mine = pb.ClaimRequest(key=key(), claim_id=str(uuid.uuid4()))
    stand_still(client.server)
    try:
        error, _ = refusal(lambda: client.ledger.Claim(mine, timeout=0.3))
    finally:
        client.server.send_signal(signal.SIGCONT)
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    # Unknown whether it was applied: the identical request finds out.
    assert client.ledger.Claim(mine, timeout=5).HasField("acquired")


def compression_on_every_service(client):
    mine = key("x" * 512)
    assert client.ledger.Claim(pb.ClaimRequest(key=mine), compression=GZIP, timeout=5).HasField("acquired")
    for service in ["", *SERVICES]:
        check = health_pb2.HealthCheckRequest(service=service)
        assert client.health.Check(check, compression=GZIP, timeout=5).status == SERVING
    channel = grpc.insecure_channel(client.address, compression=GZIP)
    assert SERVICES[0] in ProtoReflectionDescriptorDatabase(channel).get_services()


def reflection_is_enough_for_a_call(client):
    database = ProtoReflectionDescriptorDatabase(client.channel)
    assert set(SERVICES) <= set(database.get_services())
    pool = descriptor_pool.DescriptorPool(database)
    for detail in ["ErrorInfo", "BadRequest", "RetryInfo"]:
        assert pool.FindMessageTypeByName(f"google.rpc.{detail}"), "a tool can show the details of errors"
    method = pool.FindServiceByName(SERVICES[0]).FindMethodByName("Claim")
    request = message_factory.GetMessageClass(method.input_type)()
    answer = message_factory.GetMessageClass(method.output_type)
    request.key.consumer, request.key.source, request.key.id = "wire", "tests", str(uuid.uuid4())
    call = client.channel.unary_unary(
        f"/{SERVICES[0]}/Claim", request_serializer=type(request).SerializeToString,
        response_deserializer=answer.FromString)
    assert call(request, timeout=5).WhichOneof("verdict") == "acquired"


def reflection_in_both_versions(client):
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    for version in ["v1", "v1alpha"]:
        # The messages of both versions are the same on the wire.
        call = client.channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString)
        answer = next(call(iter([asked]), timeout=5))
        assert SERVICES[0] in [service.name for service in answer.list_services_response.service], version


def a_large_batch(client):
    batch = pb.BatchClaimRequest(requests=[pb.ClaimRequest(key=key()) for _ in range(1000)])
    answers = client.ledger.BatchClaim(batch, timeout=20).responses
    assert all(answer.HasField("acquired") for answer in answers) and len(answers) == 1000
    batch.requests.append(pb.ClaimRequest(key=key()))
    error, details = refusal(lambda: client.ledger.BatchClaim(batch, timeout=20))
    assert (error.code(), details["ErrorInfo"].reason) == (grpc.StatusCode.INVALID_ARGUMENT, "TOO_MANY_ITEMS")


CHECKS = [check for name, check in list(globals().items())
          if inspect.isfunction(check) and list(inspect.signature(check).parameters) == ["client"]]


def drain(running, binary, database_url):
    """SIGTERM: not serving, then the end of the streams, then exit 0; nothing accepted is lost."""
    process, address = running.serve(binary, database_url, "--drain-wait", "1s", name="draining")
    client = Client(process, address)
    watch = client.health.Watch(health_pb2.HealthCheckRequest(service=""))
    assert next(watch).status == SERVING
    process.send_signal(signal.SIGTERM)
    assert next(watch).status == NOT_SERVING
    alive = client.health.Check(health_pb2.HealthCheckRequest(service="liveness"), timeout=5)
    assert alive.status == SERVING, "it drains, but it lives"
    accepts = client.health.Check(health_pb2.HealthCheckRequest(service="accepting"), timeout=5)
    assert accepts.status == NOT_SERVING, "it takes no new traffic"
    assert client.ledger.Claim(pb.ClaimRequest(key=key()), timeout=5).HasField("acquired"), "served to the last"
    assert list(watch) == [], "the stream ends"
    assert process.wait(timeout=20) == 0


def health_command(running, binary, address):
    def asked(*more):
        return subprocess.run([binary, "health", *more], capture_output=True, text=True).returncode
    assert asked("--address", address) == 0
    assert asked("--address", address, "--service", SERVICES[0]) == 0
    assert asked("--address", address, "--service", "nobody") != 0
    assert asked("--address", f"127.0.0.1:{free_port()}") != 0


def grpcurl_like_tools(running, binary, address):
    """`buf curl` finds everything by reflection, as grpcurl does."""
    buf = subprocess.run(["buf", "--version"], capture_output=True)
    assert buf.returncode == 0, "buf is missing: pip install buf-bin"
    body = json.dumps({"key": {"consumer": "wire", "source": "tests", "id": "by-reflection"}})
    command = ["buf", "curl", "--http2-prior-knowledge", "--protocol", "grpc", "--data", body,
               f"http://{address}/{SERVICES[0]}/Claim"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "acquired" in json.loads(answer.stdout), answer.stdout


def main():
    chosen = options(__doc__)
    with Running(migrates=not chosen.migrated) as running:
        server, address = running.serve(chosen.binary, chosen.database_url)
        client = Client(server, address)
        checks = [(check.__name__, lambda check=check: check(client)) for check in CHECKS]
        checks += [(check.__name__, lambda check=check: check(running, chosen.binary, address))
                   for check in (health_command, grpcurl_like_tools)]

        def drained():
            # A SQLite file has one owner.
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)
            drain(running, chosen.binary, chosen.database_url)

        checks.append(("drain", drained))
        failed = checked(checks)
        if failed:
            print(running.log("server")[-4000:])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
