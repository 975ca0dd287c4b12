"""What an error of gRPC says in the ledger's terms."""

from __future__ import annotations

from typing import Any, Dict

from ._core.steps import Failure


def failure_of(error: Any, endpoint: str) -> Failure:
    """The failure that an `RpcError` reports, by the trailers with which the ledger marks its own errors.

    Where the ledger did not make the error, its text names the `endpoint`: gRPC's own is often "Deadline Exceeded".
    """
    trailers: Dict[str, str] = {}
    for name, value in error.trailing_metadata() or ():
        trailers[name] = value if isinstance(value, str) else value.decode("latin-1")
    code = error.code()
    text, reason = error.details() or "", trailers.get("idempotency-ledger-reason") or None
    if reason is None:
        text = f"no answer from {endpoint} (option endpoint, else LEDGER_ENDPOINT): {text}"
    after = trailers.get("idempotency-ledger-retry-after-ms", "")
    return Failure(
        code.name if code is not None else "UNKNOWN",
        reason,
        trailers.get("idempotency-ledger-advice") or None,
        int(after) / 1000 if after.isdigit() else None,
        text[:500],
    )
