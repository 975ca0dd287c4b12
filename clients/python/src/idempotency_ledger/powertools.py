"""A persistence layer for the idempotency utility of Powertools for AWS Lambda. Needs the extra `powertools`.

::

    store = LedgerPersistenceLayer(Ledger("orders-lambda", lease=60))

    @idempotent(persistence_store=store, config=IdempotencyConfig(event_key_jmespath="order_id"))
    def handler(event, context):
        return charge(event, store.claim.token)
"""

from __future__ import annotations

import threading
from typing import Any, Dict, Optional

from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyItemAlreadyExistsError,
    IdempotencyItemNotFoundError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.persistence.datarecord import DataRecord

from .errors import NoResult, NotGranted
from .key import Key
from .ledger import Claim, ClaimScope, Ledger
from .outcome import Advice, Outcome


class LedgerPersistenceLayer(BasePersistenceLayer):
    """Keeps the records of Powertools in the ledger: ``@idempotent(persistence_store=LedgerPersistenceLayer(ledger))``.

    `ledger`: its consumer is the application, its `lease` replaces the remaining time of the invocation, and its
    `unexpected` says what an exception of the function means: parked by default, since its effect may have happened.
    ``unexpected=Retry`` is what the other layers of Powertools do. A function may raise `Retry`, `Terminal`, `Park` and
    `Doubtful`. `source`: the ledger's source of all keys. `wait`: seconds to wait while another invocation is at work.

    How long a result is kept is the policy of the consumer; ``expires_after_seconds`` bounds the local cache alone.

    Powertools does not report an interruption (KeyboardInterrupt, SystemExit): the claim then stays held while the
    process lives, at most for the policy's `max_hold`.

    The interface of Powertools hands no token to the function, so a function that stood still beyond its lease is not
    fenced. `claim` gives the token and the key for a provider to a function that wants to be safe against that.
    """

    def __init__(self, ledger: Ledger, source: str = "lambda", wait: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._ledger = ledger
        self._source = source
        self._wait = wait
        self._thread = _Thread()

    @property
    def claim(self) -> Claim:
        """The claim of the function that runs in this thread: its token, its `idempotency_key`, and `check`."""
        if not self._thread.scopes:
            raise NotGranted("no idempotent function runs in this thread")
        return list(self._thread.scopes.values())[-1].claim

    def delete_record(self, data: Dict[str, Any], exception: Exception) -> None:
        """The function has raised `exception`: settles by what it says."""
        self._thread.raised = exception
        super().delete_record(data, exception)

    def _put_record(self, data_record: DataRecord) -> None:
        key = data_record.idempotency_key
        scope = self._ledger.claim(
            Key.of(self._source, key), body=data_record.payload_hash.encode() or None, wait=self._wait
        )
        claim = scope.__enter__()
        if claim.granted:
            self._thread.scopes[key] = _Running(scope, claim)
            return
        scope.__exit__(None, None, None)
        raise _refusal(data_record, claim.outcome)

    def _update_record(self, data_record: DataRecord) -> None:
        running = self._thread.scopes.pop(data_record.idempotency_key)
        running.claim.result = data_record.response_data
        outcome = running.leave(None)
        if outcome.advice is not Advice.ACK:
            raise NotGranted(f"the completion was not confirmed: {outcome.reason}")

    def _delete_record(self, data_record: DataRecord) -> None:
        self._thread.scopes.pop(data_record.idempotency_key).leave(self._thread.raised)

    def _get_record(self, idempotency_key: str) -> DataRecord:
        # Each refusal of `_put_record` carries its record: only a record that the local cache has lost is asked for.
        raise IdempotencyItemNotFoundError


class _Thread(threading.local):
    """What runs in a thread, the innermost last: Powertools begins and ends a record in the thread of the function."""

    def __init__(self) -> None:
        self.scopes: Dict[str, _Running] = {}
        self.raised: Optional[BaseException] = None


class _Running:
    """A function at work."""

    def __init__(self, scope: ClaimScope, claim: Claim) -> None:
        self.scope = scope
        self.claim = claim

    def leave(self, error: Optional[BaseException]) -> Outcome:
        self.scope.__exit__(type(error) if error is not None else None, error, None)
        return self.claim.outcome


def _refusal(record: DataRecord, outcome: Outcome) -> Exception:
    """What Powertools takes a refused claim for."""
    key = record.idempotency_key
    if outcome.replayed:
        if outcome.result is None:
            return NoResult(outcome)
        stored = DataRecord(key, "COMPLETED", response_data=outcome.result.decode(), payload_hash=record.payload_hash)
        return IdempotencyItemAlreadyExistsError(old_data_record=stored)
    if outcome.reason == "fingerprint_mismatch":
        return IdempotencyValidationError("Payload does not match stored record for this event key")
    if outcome.advice is Advice.RETRY_LATER:
        return IdempotencyItemAlreadyExistsError(old_data_record=DataRecord(key, "INPROGRESS"))
    return NotGranted(f"the message is not processed: {outcome.reason}")
