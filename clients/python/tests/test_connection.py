"""Where the servers are found, and with which credentials; which options are refused before anything is sent."""

from __future__ import annotations

import datetime
import json
import pathlib
import warnings
from typing import Any, Dict, Optional

import pytest

from idempotency_ledger import Connection, Doubtful, Fingerprint, GiveBack, InvalidField, Key, Ledger, Park, Retry
from idempotency_ledger._connection import SERVICE_CONFIG, TokenFile
from idempotency_ledger._options import Delivery, Options

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("connection", "environment", "target", "tls"),
    [
        (Connection(), {}, "127.0.0.1:50051", False),
        (Connection(), {"LEDGER_ENDPOINT": "ledger:1"}, "dns:///ledger:1", False),
        (Connection("other:2"), {"LEDGER_ENDPOINT": "ledger:1"}, "dns:///other:2", False),
        (Connection("http://ledger:1"), {}, "dns:///ledger:1", False),
        (Connection("https://ledger:1/"), {}, "dns:///ledger:1", True),
        (Connection("https://[::1]:1"), {}, "[::1]:1", True),
        (Connection("ledger:1"), {"LEDGER_CA_FILE": "ca.pem"}, "dns:///ledger:1", True),
        (Connection("dns:///ledger:1"), {}, "dns:///ledger:1", False),
        (Connection("ipv4:10.0.0.1:1,10.0.0.2:1"), {}, "ipv4:10.0.0.1:1,10.0.0.2:1", False),
        (Connection("unix:/run/ledger"), {}, "unix:/run/ledger", False),
    ],
)
def test_endpoint_becomes_a_target(
    connection: Connection, environment: Dict[str, str], target: str, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEDGER_ENDPOINT", "LEDGER_TOKEN_FILE", "LEDGER_CA_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert connection.resolved().target() == (target, tls)


@pytest.mark.parametrize(
    ("connection", "field"),
    [
        (Connection("ledger"), "endpoint"),
        (Connection("ledger:port"), "endpoint"),
        (Connection(":1"), "endpoint"),
        (Connection("http://ledger:1", ca_file="ca.pem"), "endpoint"),
        (Connection("https://ipv4:10.0.0.1:1,10.0.0.2:1"), "endpoint"),
        (Connection("ipv4:10.0.0.1:1,10.0.0.2:1", ca_file="ca.pem"), "endpoint"),
        (Connection("http://ledger:1", token_file="token"), "token_file"),
        (Connection("ledger:1", token_file="token"), "token_file"),
        (Connection("https://ledger:1", client_cert_file="cert.pem"), "client_cert_file"),
        (Connection("ledger:1", client_cert_file="cert.pem", client_key_file="key.pem"), "client_cert_file"),
    ],
)
def test_contradicting_parts_are_refused(connection: Connection, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEDGER_CA_FILE", raising=False)
    with pytest.raises(InvalidField) as raised:
        connection.resolved()
    assert raised.value.field == field


def test_calls_are_spread_as_deploy_says() -> None:
    deployed = json.loads((ROOT / "deploy/clients/service-config.json").read_text(encoding="utf-8"))
    ours = json.loads(SERVICE_CONFIG)
    assert ours == {name: deployed[name] for name in ("loadBalancingConfig", "healthCheckConfig")}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"consumer": ""}, "key.consumer"),
        ({"consumer": "x" * 129}, "key.consumer"),
        ({"owner": "a\nb"}, "owner"),
        ({"owner": "x" * 129}, "owner"),
        ({"lease": 0.5}, "lease"),
        ({"lease": 100_000}, "lease"),
        ({"unexpected": GiveBack}, "unexpected"),
    ],
)
def test_option_beyond_its_bound_is_refused(options: Dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as raised:
        Ledger(**{"consumer": "c", **options})
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("delivery", "field"),
    [
        (Delivery(Key("s", "i"), body=b"b", fingerprint=Fingerprint(b"f")), "fingerprint"),
        (Delivery(Key("s", "i"), wait=-1), "wait"),
        (Delivery(Key("s", "i"), wait=4000), "wait"),
        (Delivery(Key("s", "i"), occurred_at=datetime.datetime(2026, 1, 1)), "occurred_at"),
        (Delivery(Key("s", "i"), body="text"), "fingerprint"),  # type: ignore[arg-type]
    ],
)
def test_delivery_beyond_its_bound_is_refused(delivery: Delivery, field: str) -> None:
    with pytest.raises(InvalidField) as raised:
        Options("c", Connection()).request(delivery)
    assert raised.value.field == field


def test_claim_of_a_delivery() -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, 600_000, datetime.timezone.utc)
    delivery = Delivery(Key("s", "i", "run"), b"body", occurred_at=when, event_type="paid", wait=2.5)
    request = Options("c", Connection(), lease=1.5, owner="me").request(delivery)
    assert (request.key.consumer, request.key.source, request.key.id, request.key.replay_run) == ("c", "s", "i", "run")
    assert (request.lease.seconds, request.lease.nanos) == (1, 500_000_000)
    assert (request.wait.seconds, request.wait.nanos) == (2, 500_000_000)
    assert request.occurred_at.ToDatetime(datetime.timezone.utc) == when
    assert (request.event_type, request.owner, request.fingerprint) == ("paid", "me", Fingerprint.of(b"body").digest)
    assert Options("c", Connection()).request(delivery).claim_id != request.claim_id


@pytest.mark.parametrize(
    ("budget", "ack_wait", "warns"), [(40.0, 30.0, True), (30.0, 30.0, False), (None, 30.0, False), (40.0, None, False)]
)
def test_handler_that_outlasts_the_broker_is_warned_of(
    budget: Optional[float], ack_wait: Optional[float], warns: bool
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Ledger("c", handler_budget=budget, ack_wait=ack_wait)
    assert [str(warning.message).startswith("c: a handler may take 40.0 s") for warning in caught] == [True] * warns
    assert [warning.filename for warning in caught] == [__file__] * warns


@pytest.mark.parametrize("error", [lambda: Retry(after=-1), lambda: Retry(after=31 * 86_400)])
def test_retry_has_a_bound(error: Any) -> None:
    with pytest.raises(InvalidField, match="retry_after"):
        error()


def test_steering_error_has_the_name_of_its_type() -> None:
    assert [str(error) for error in (Retry(), Park(), Doubtful("guard"))] == ["Retry", "Park", "guard"]


def test_token_file_is_read_again_when_it_changes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    file = TokenFile(str(path))
    assert file.token() == "first"
    path.write_text("second, and longer\n")
    assert file.token() == "second, and longer"
    other = tmp_path / "other"
    other.write_text("third\n")
    other.replace(path)
    assert file.token() == "third"
    path.unlink()
    answers: list[Any] = []
    file(None, lambda metadata, error: answers.append(error))
    assert isinstance(answers[0], OSError)
