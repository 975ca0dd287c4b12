"""What the package raises, and what a handler raises to say what became of its effect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from .outcome import Outcome


class LedgerError(Exception):
    """The base of what this package raises by itself."""


class InvalidField(LedgerError, ValueError):
    """A field is beyond its bound; nothing was sent.

    `field` is its name as in the protobuf files, such as ``key.source``; `bound` says what is allowed.
    """

    def __init__(self, field: str, bound: str) -> None:
        super().__init__(f"{field}: {bound}")
        self.field = field
        self.bound = bound


class Closed(LedgerError):
    """The ledger's client is closed, or closes: nothing was sent. Let the broker deliver the message again."""


class ForkedTooLate(LedgerError):
    """The process was forked after an `AsyncLedger` had sent a call: gRPC's event loop does not survive a fork.

    Nothing was sent. Send the first call after the fork; `Ledger`, for threads, may be used before it as well.
    """

    def __init__(self) -> None:
        super().__init__("the process was forked after an AsyncLedger had sent a call: send the first one after it")


class ClaimLost(LedgerError):
    """The lease of the claim has ended, or the ledger has refused to renew it: write nothing more.

    `reason` is ``LEASE_OVER`` where the lease ended by this process's clock, else the ledger's reason, such as
    ``LEASE_LOST``.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the claim is lost ({reason}): another attempt may be running")
        self.reason = reason


class NotGranted(LedgerError):
    """The claim was not granted, or is not settled yet: look at `granted` first."""


class NotProtected(LedgerError):
    """`announce()` was refused before anything was sent: the claim's policy would not park the message.

    Set ``on_expiry = "PARK_IF_STARTED"`` (or ``PARK``) in the consumer's policy. Where a handler lets this error
    pass, the claim is given back with a delay.
    """

    def __init__(self, on_expiry: str) -> None:
        super().__init__(f"on_expiry of this claim is {on_expiry}: an announced effect would not be parked")


class CheckpointDropped(LedgerError):
    """The checkpoint is larger than the server's bound (16 KiB by default): the earlier one stays stored."""


class NoResult(LedgerError):
    """A function made idempotent has no result to return; `outcome` says why, and what to do with the message."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(f"the call has no result: {outcome}")
        self.outcome = outcome


class Steer(Exception):
    """The base of what a handler raises to say how its attempt ended.

    `reason` is sent to the ledger and shown to operators (at most 2 KiB, longer is cut): put no payload and no secret
    there. Without it the name of the class is sent.
    """

    # True where a guard has made it of an error, which is logged: the handler did not choose it.
    _of_guard = False

    def __init__(self, reason: Optional[str] = None) -> None:
        super().__init__(reason or type(self).__name__)
        self.reason = reason


class Retry(Steer):
    """The effect certainly did not happen, and another attempt may succeed.

    `after`: seconds until the next attempt is due, 0 to 30 days. `None`: the back-off of the consumer's policy.
    """

    def __init__(self, reason: Optional[str] = None, *, after: Optional[float] = None) -> None:
        super().__init__(reason)
        if after is not None and not 0 <= after <= 30 * 86_400:
            raise InvalidField("retry_after", f"{after} s is not within 0 s and 30 days")
        self.after = after


class Terminal(Steer):
    """The effect certainly did not happen, and no attempt will ever succeed: the message is dead-lettered."""


class Park(Steer):
    """A person must look at the message. Also right where it is unknown whether the effect happened."""


class Doubtful(Steer):
    """It is unknown whether the effect happened, and the next attempt finds out by itself, as with a guard row.

    Nothing is settled: the lease ends by itself, and the next attempt finds `effect_unknown`.
    """


class GiveBack(Steer):
    """Nothing was begun: the claim is released, and the attempt does not count.

    `after`: seconds until the key is claimable again. `unpin_fingerprint`: a corrected message with another body may
    use the same key.
    """

    def __init__(self, reason: Optional[str] = None, *, after: float = 0.0, unpin_fingerprint: bool = False) -> None:
        super().__init__(reason)
        self.after = after
        self.unpin_fingerprint = unpin_fingerprint


class AnnouncementFailed(Retry):
    """The ledger has not confirmed the announcement, so the effect must not start. Let this error pass."""
