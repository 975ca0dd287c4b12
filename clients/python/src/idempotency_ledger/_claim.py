"""A claim, as a handler sees it: what both idioms share."""

from __future__ import annotations

import inspect
import logging
from typing import Optional, Union

from ._core.delivery import Done, ended
from ._core.holds import Hold
from ._proto import ledger_pb2 as pb
from .errors import InvalidField, NotGranted
from .outcome import Outcome

_log = logging.getLogger("idempotency_ledger")
Result = Union[bytes, bytearray, memoryview, str, None]


def done_of(result: Result) -> Done:
    """The ending of a handler that returned this. What cannot be a result is reported, and completes all the same.

    Raises `InvalidField` for a coroutine: its body has not run, so that the message is not completed.
    """
    done = ended(result)
    if done.left_out and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # Without it Python warns of a coroutine that was never awaited.
        raise InvalidField("handler", "returned a coroutine that was not awaited: await it, with AsyncLedger")
    if done.left_out:
        _log.error(
            "a handler returned %s: a result is bytes, text or None; the message is completed without it",
            type(result).__name__,
        )
    return done


def ending_of(result: Result, error: Optional[BaseException]) -> Union[Done, BaseException]:
    """How a block has ended: with the error that left it, else with its result."""
    if error is not None:
        return error
    try:
        return done_of(result)
    except InvalidField as fault:
        return fault


class BaseClaim:
    """The right to process a message now, where `granted`. It is held under a lease that is renewed meanwhile."""

    result: Result = None
    """What later deliveries are answered, at most 16 KiB by default: set it inside of ``with ledger.claim(…)``."""

    def __init__(self) -> None:
        self._held: Optional[Hold] = None
        self._outcome: Optional[Outcome] = None

    @property
    def granted(self) -> bool:
        """True: process the message now. False: `outcome` says what to do with it."""
        return self._held is not None

    @property
    def outcome(self) -> Outcome:
        """What became of the delivery. `NotGranted` while that is not known yet: inside of a granted claim's block."""
        outcome = self._outcome or (self._held.settled if self._held else None)
        if outcome is None:
            raise NotGranted("the claim is not settled yet: its outcome is known after the block")
        return outcome

    @property
    def _hold(self) -> Hold:
        if self._held is None:
            raise NotGranted(f"the claim was not granted: {self._outcome}")
        return self._held

    @property
    def token(self) -> int:
        """The fence, below 2^53: write it with the effect, and let the store refuse a lower one."""
        return int(self._hold.granted.token)

    @property
    def idempotency_key(self) -> str:
        """The same on every attempt: hand it to a provider that deduplicates by such a key."""
        return str(self._hold.granted.idempotency_key)

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1 on."""
        return int(self._hold.granted.attempt)

    @property
    def attempts_left(self) -> Optional[int]:
        """How many attempts are left after this one; `None` without a limit."""
        granted = self._hold.granted
        return int(granted.attempts_left) if granted.HasField("attempts_left") else None

    @property
    def effect_unknown(self) -> bool:
        """An earlier attempt may have had its effect: look before an effect that is not idempotent is repeated."""
        return bool(self._hold.granted.effect_unknown)

    @property
    def prior_effect_started(self) -> bool:
        """An earlier attempt had announced its effect. Only with ``repeat_announced=True`` a handler sees this."""
        return bool(self._hold.granted.prior_effect_started)

    @property
    def checkpoint(self) -> bytes:
        """What an earlier attempt saved; empty where there is nothing."""
        return bytes(self._hold.granted.checkpoint)

    @property
    def last_error(self) -> str:
        """The error of the last failed attempt; empty where there is none."""
        return str(self._hold.granted.last_error)

    @property
    def on_expiry(self) -> str:
        """What becomes of this claim should its lease end: ``RECLAIM``, ``PARK`` or ``PARK_IF_STARTED``."""
        return pb.OnExpiry.Name(self._hold.granted.on_expiry)[len("ON_EXPIRY_") :]

    @property
    def announced(self) -> bool:
        """`announce()` was called: the ledger may know that the effect was about to start."""
        return self._hold.announced

    @property
    def hold_until(self) -> float:
        """The instant of `time.monotonic()` at which the claim is over at the latest, whatever is renewed."""
        return self._hold.hold_until

    @property
    def lost(self) -> Optional[str]:
        """Why the claim is not held any more, such as ``LEASE_LOST``; `None` while it is held."""
        return self._hold.over()

    def check(self) -> None:
        """Raises `ClaimLost` where the claim is not held any more. Call it before each part of a long effect."""
        self._hold.check()
