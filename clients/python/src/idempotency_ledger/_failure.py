"""What an error of gRPC says in the ledger's terms."""

from __future__ import annotations

from typing import Any, Dict

from ._core.steps import Failure


def failure_of(error: Any) -> Failure:
    """The failure that an `RpcError` reports, by the trailers with which the ledger marks its own errors."""
    trailers: Dict[str, str] = {}
    for name, value in error.trailing_metadata() or ():
        trailers[name] = value if isinstance(value, str) else value.decode("latin-1")
    code = error.code()
    after = trailers.get("idempotency-ledger-retry-after-ms", "")
    return Failure(
        code.name if code is not None else "UNKNOWN",
        trailers.get("idempotency-ledger-reason") or None,
        trailers.get("idempotency-ledger-advice") or None,
        int(after) / 1000 if after.isdigit() else None,
        (error.details() or "")[:500],
    )
