"""A client of the idempotency ledger: each message of a broker, and each request, is processed once.

`Ledger.process` is the whole API for most programs; `AsyncLedger` is its twin for asyncio.
"""

from ._connection import Connection
from ._decorator import JSON, Codec
from .aio import AsyncClaim, AsyncLedger
from .errors import (
    AnnouncementFailed,
    CheckpointDropped,
    ClaimLost,
    Closed,
    Doubtful,
    ForkedTooLate,
    GiveBack,
    InvalidField,
    LedgerError,
    NoResult,
    NotGranted,
    NotProtected,
    Park,
    Retry,
    Steer,
    Terminal,
)
from .key import Fingerprint, Key
from .ledger import Claim, Ledger
from .message import Message, StoredMessage
from .outcome import Advice, Outcome
from .shutdown import Shutdown

__version__ = "0.1.0"
__all__ = [
    "JSON",
    "Advice",
    "AnnouncementFailed",
    "AsyncClaim",
    "AsyncLedger",
    "CheckpointDropped",
    "Claim",
    "ClaimLost",
    "Closed",
    "Codec",
    "Connection",
    "Doubtful",
    "Fingerprint",
    "ForkedTooLate",
    "GiveBack",
    "InvalidField",
    "Key",
    "Ledger",
    "LedgerError",
    "Message",
    "NoResult",
    "NotGranted",
    "NotProtected",
    "Outcome",
    "Park",
    "Retry",
    "Shutdown",
    "Steer",
    "StoredMessage",
    "Terminal",
]
