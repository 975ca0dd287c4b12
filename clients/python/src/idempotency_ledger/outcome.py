"""What became of a delivery, and what to do with the broker's message."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional


class Advice(enum.Enum):
    """What to do with the broker's message."""

    ACK = "ACK"
    """The message is completed: acknowledge it."""
    RETRY_LATER = "RETRY_LATER"
    """Do not acknowledge it: let the broker deliver it again, after `Outcome.delay` seconds."""
    DEAD_LETTER = "DEAD_LETTER"
    """Only a person can change the answer: store a safe copy, then acknowledge it."""


@dataclass(frozen=True)
class Outcome:
    """What became of a delivery. Acknowledge on `Advice.ACK` alone."""

    advice: Advice
    """What to do with the broker's message."""
    delay: float = 0.0
    """With RETRY_LATER: at least how many seconds to wait before the next delivery. Else 0."""
    result: Optional[bytes] = None
    """What the handler of this or of the earlier attempt returned; `None` where it is not known here."""
    replayed: bool = False
    """An earlier attempt completed the message, and no handler ran for this delivery."""
    result_dropped: bool = False
    """The effect had a result that the ledger has not stored: it was too large. It has not been lost by a repeat."""
    effect_unknown: bool = False
    """The grant said that an earlier attempt may have had its effect, or this attempt ended in doubt."""
    reason: Optional[str] = None
    """Why, where it is not simply done: the ledger's reason (``LEASE_LOST``), its verdict (``parked``), the reason that
    the handler gave, or one of the package: ``INVALID_FIELD``, ``PRIOR_EFFECT_STARTED``, ``NOT_PROTECTED``,
    ``CLOSING``, ``LEASE_OVER``, ``DOUBTFUL``, ``INTERRUPTED``, ``UNKNOWN_VERDICT``, ``NO_ANSWER``."""
    detail: str = ""
    """For people: the field at fault and its bound, what the error of a call said, or which endpoint did not answer."""
    attempt: int = 0
    """Which attempt this was, or how many there were; 0 where it is not known."""
    error: Optional[BaseException] = None
    """What the handler raised, for the application's own log; it is not sent to the ledger."""
    away: bool = False
    """Claim itself was not answered (UNAVAILABLE, DEADLINE_EXCEEDED, or no connection), so that no handler ran. Only
    then may a consumer that has chosen to work without the ledger go on, by `idempotency_ledger.spool`."""
