"""Traces and metrics by OpenTelemetry's API, where the application has it; else nothing."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Dict, Iterator, List, Tuple

from .outcome import Outcome

try:
    from opentelemetry import metrics, propagate, trace
except ImportError:
    _found = False
else:
    _found = True

_NAME = "idempotency_ledger"


class Telemetry:
    """The spans and the metric of one consumer. Neither has a payload, a key or a token."""

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer
        if _found:
            self._tracer = trace.get_tracer(_NAME)
            self._duration = metrics.get_meter(_NAME).create_histogram(
                "idempotency_ledger.client.process.duration",
                unit="s",
                description="Time from a delivery's Claim to its outcome, the handler included.",
            )

    @contextlib.contextmanager
    def delivery(self) -> Iterator[List[Outcome]]:
        """A span around one delivery; its outcome is put into the list."""
        outcomes: List[Outcome] = []
        if not _found:
            yield outcomes
            return
        began = time.monotonic()
        named: Dict[str, Any] = {"idempotency_ledger.consumer": self._consumer}
        with self._tracer.start_as_current_span(
            f"process {self._consumer}", attributes=named, record_exception=False
        ) as span:
            try:
                yield outcomes
            finally:
                if outcomes:
                    named["idempotency_ledger.advice"] = outcomes[0].advice.value
                    named["idempotency_ledger.replayed"] = outcomes[0].replayed
                    span.set_attributes(named)
                self._duration.record(time.monotonic() - began, named)


def metadata() -> Tuple[Tuple[str, str], ...]:
    """`traceparent` and what else the application propagates, for a call."""
    if not _found:
        return ()
    carrier: Dict[str, str] = {}
    propagate.inject(carrier)
    return tuple((name.lower(), value) for name, value in carrier.items())
