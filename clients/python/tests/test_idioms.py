"""What the idioms add to the core, without a server: the decorator's values, the renewer, telemetry, trailers."""

from __future__ import annotations

import dataclasses
import functools
import threading
from typing import Any, Callable, Dict, List, Tuple

import grpc
import pytest
from world import Play

from idempotency_ledger import (
    JSON,
    Advice,
    AsyncLedger,
    Connection,
    InvalidField,
    Key,
    Ledger,
    NoResult,
    Outcome,
    Park,
    Retry,
    _telemetry,
)
from idempotency_ledger._claim import ending_of
from idempotency_ledger._core.steps import Failure, Send, duration
from idempotency_ledger._decorator import replayed
from idempotency_ledger._failure import failure_of
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger._renewer import Renewer
from idempotency_ledger._report import Report
from idempotency_ledger._telemetry import Telemetry
from idempotency_ledger.guard import Undecided


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Advice.RETRY_LATER, 1.0, reason="in_progress"),
        Outcome(Advice.DEAD_LETTER, reason="parked"),
        Outcome(Advice.ACK, replayed=True, result_dropped=True),
        Outcome(Advice.ACK, replayed=True),
    ],
)
def test_call_without_a_result_is_an_error(outcome: Outcome) -> None:
    with pytest.raises(NoResult) as raised:
        replayed(outcome, JSON)
    assert raised.value.outcome == outcome


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Advice.ACK, result=b'{"a": 1}'),
        Outcome(Advice.ACK, result=b'{"a": 1}', replayed=True),
        # The effect is done, and its value known here, though the ledger has not confirmed it or not stored it.
        Outcome(Advice.RETRY_LATER, 1.0, result=b'{"a": 1}', reason="NO_ANSWER"),
        Outcome(Advice.ACK, result=b'{"a": 1}', result_dropped=True),
    ],
)
def test_call_with_a_result_returns_it(outcome: Outcome) -> None:
    assert replayed(outcome, JSON) == {"a": 1}


def test_error_of_the_function_is_raised_again() -> None:
    error = ValueError()
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        replayed(Outcome(Advice.DEAD_LETTER, error=error), JSON)
    assert raised.value is error


def test_decorated_function_keeps_its_name() -> None:
    @Ledger("c", Connection("127.0.0.1:1")).idempotent(key=lambda order: order)
    def charge(order: Any) -> int:
        """Charges an order."""
        return 1

    typed: Callable[[Any], int] = charge  # The types of the function are those of the decorated one.
    assert typed is charge
    assert (charge.__name__, charge.__doc__) == ("charge", "Charges an order.")


class _Error:
    def __init__(self, code: Any, *trailers: Tuple[str, Any]) -> None:
        self._code, self._trailers = code, trailers

    def code(self) -> Any:
        return self._code

    def details(self) -> str:
        return ""

    def trailing_metadata(self) -> Any:
        return self._trailers


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (_Error(grpc.StatusCode.INTERNAL), Failure("INTERNAL")),
        (_Error(None), Failure("UNKNOWN")),
        (
            _Error(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                ("idempotency-ledger-reason", "OVERLOADED"),
                ("idempotency-ledger-advice", "RETRY_LATER"),
                ("idempotency-ledger-retry-after-ms", "250"),
                ("grpc-status-details-bin", b"\x00"),
            ),
            Failure("RESOURCE_EXHAUSTED", "OVERLOADED", "RETRY_LATER", 0.25),
        ),
        (
            _Error(
                grpc.StatusCode.ABORTED,
                ("idempotency-ledger-reason", b"LEASE_LOST"),
                ("idempotency-ledger-retry-after-ms", "x"),
            ),
            Failure("ABORTED", "LEASE_LOST"),
        ),
    ],
)
def test_error_is_the_ledgers_by_its_trailers(error: Any, failure: Failure) -> None:
    assert dataclasses.replace(failure_of(error, "ledger:1"), text="") == failure


def test_call_without_an_answer_names_the_endpoint() -> None:
    text = failure_of(_Error(grpc.StatusCode.DEADLINE_EXCEEDED), "ledger.example:50051").text
    assert text.startswith("no answer from ledger.example:50051 (option endpoint, else LEDGER_ENDPOINT)")
    ours = _Error(grpc.StatusCode.ABORTED, ("idempotency-ledger-reason", "LEASE_LOST"))
    assert failure_of(ours, "ledger.example:50051").text == ""


async def _charge(_claim: Any) -> bytes:
    raise AssertionError("nothing may run it")


@pytest.mark.parametrize("handler", [_charge, functools.partial(_charge), None, b"result"])
def test_handler_that_no_thread_can_run_is_refused_before_the_claim(handler: Any) -> None:
    with pytest.raises(InvalidField, match="handler"):
        Ledger("c", Connection("127.0.0.1:1")).process(Key.of("s", "i"), handler)


def test_coroutine_function_is_not_made_idempotent_by_threads() -> None:
    with pytest.raises(InvalidField, match="AsyncLedger"):
        Ledger("c", Connection("127.0.0.1:1")).idempotent(key=lambda claim: Key.of("s", "i"))(_charge)


def test_coroutine_as_a_result_completes_nothing() -> None:
    """Its body has not run: a message that was completed with it would be lost."""
    ending = ending_of(_charge(None), None)  # type: ignore[arg-type]
    assert isinstance(ending, InvalidField)
    assert "AsyncLedger" in str(ending)


def test_key_that_is_text_is_refused_by_name() -> None:
    for made in (Ledger("c", Connection("127.0.0.1:1")), AsyncLedger("c", Connection("127.0.0.1:1"))):
        with pytest.raises(InvalidField, match=r"key: must be a Key, not str: Key\.of"):
            made.claim("shop/1")  # type: ignore[arg-type]


def test_renewer_waits_for_no_call_and_ends_without_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idempotency_ledger._renewer._LINGER", 0.01)
    play = Play()
    started: List[str] = []
    both = threading.Event()

    def start(step: Send, arrived: Any) -> None:
        started.append(step.method)
        if len(started) == 2:
            both.set()  # The second one is sent although the first one is not answered.
            arrived(Failure("ABORTED", "LEASE_LOST"))

    renewer = Renewer(start)
    reasons: Dict[str, str] = {}
    lost = threading.Event()
    holds = [play.hold(lease=0.0), play.hold(lease=0.0)]
    for hold in holds:
        hold.lease_until = play.now + 5

    def on_lost(reason: str) -> None:
        reasons["lost"] = reason
        lost.set()

    numbers = [renewer.keep(hold, on_lost) for hold in holds]
    assert both.wait(10)
    assert lost.wait(10)
    assert reasons == {"lost": "LEASE_LOST"}
    thread = renewer._thread
    for number in numbers:
        renewer.drop(number)
    if thread is not None:
        thread.join(10)
        assert not thread.is_alive()


class _Recorder:
    """Stands for OpenTelemetry's API."""

    def __init__(self) -> None:
        self.spans: List[Tuple[str, Dict[str, Any]]] = []
        self.records: List[Dict[str, Any]] = []

    def get_tracer(self, _name: str) -> Any:
        return self

    get_meter = get_tracer

    def create_histogram(self, *_arguments: Any, **_named: Any) -> Any:
        return self

    def start_as_current_span(self, name: str, **named: Any) -> Any:
        self.spans.append((name, named))
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def set_attributes(self, attributes: Dict[str, Any]) -> None:
        self.spans[-1][1]["set"] = attributes

    def record(self, seconds: float, attributes: Dict[str, Any]) -> None:
        assert seconds >= 0
        self.records.append(attributes)

    def inject(self, carrier: Dict[str, str]) -> None:
        carrier["Traceparent"] = "00-1-2-01"


def test_telemetry_has_the_consumer_and_the_advice_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = _Recorder()
    for name in ("trace", "metrics", "propagate"):
        monkeypatch.setattr(_telemetry, name, recorder, raising=False)
    monkeypatch.setattr(_telemetry, "_found", True)
    with Telemetry("payments").delivery() as outcomes:
        outcomes.append(Outcome(Advice.ACK, result=b"secret", replayed=True, error=Park("secret")))
    assert recorder.spans[0][0] == "process payments"
    assert recorder.records == [
        {
            "idempotency_ledger.consumer": "payments",
            "idempotency_ledger.advice": "ACK",
            "idempotency_ledger.replayed": True,
        }
    ]
    assert _telemetry.metadata() == (("traceparent", "00-1-2-01"),)


def test_log_has_a_line_a_second_of_each_kind(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr("idempotency_ledger._report.time.monotonic", lambda: now[0])
    report = Report("payments")
    refused = Outcome(Advice.RETRY_LATER, 1.0, reason="UNAUTHENTICATED", detail="no token")
    for _ in range(3):
        report.outcome(refused)
    report.outcome(Outcome(Advice.DEAD_LETTER, error=ValueError("secret"), result=b"secret"))
    report.outcome(Outcome(Advice.ACK, result=b"r"))
    report.outcome(Outcome(Advice.RETRY_LATER, 1.0, error=Retry("steers"), reason="steers"))
    fault = InvalidField("key.id", "has 513 bytes")
    report.outcome(Outcome(Advice.DEAD_LETTER, error=fault, reason="INVALID_FIELD", detail=str(fault)))
    report.outcome(Outcome(Advice.RETRY_LATER, 1.0, error=Undecided("OperationalError of the database")))
    now[0] += 1
    report.outcome(Outcome(Advice.DEAD_LETTER, error=InvalidField("connection", "must"), reason="InvalidField"))
    report.outcome(refused)
    assert [record.getMessage() for record in caplog.records] == [
        "payments: UNAUTHENTICATED: no token: RETRY_LATER",
        "payments: ValueError was raised (see Outcome.error): DEAD_LETTER",
        "payments: INVALID_FIELD: key.id: has 513 bytes: DEAD_LETTER",
        "payments: guard: OperationalError of the database (see Outcome.error.__cause__): RETRY_LATER",
        "payments: InvalidField was raised: connection: must: DEAD_LETTER",
        "payments: UNAUTHENTICATED: no token: RETRY_LATER; 2 more of this kind were suppressed",
    ]


def test_without_telemetry_nothing_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_telemetry, "_found", False)
    with Telemetry("payments").delivery() as outcomes:
        outcomes.append(Outcome(Advice.ACK))
    assert _telemetry.metadata() == ()


def test_version_is_that_of_the_package() -> None:
    import pathlib

    import idempotency_ledger

    project = (pathlib.Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{idempotency_ledger.__version__}"' in project
    assert pb.DESCRIPTOR.name == "idempotency/ledger/v1/ledger.proto"
    assert duration(1.9999999999).seconds == 2
