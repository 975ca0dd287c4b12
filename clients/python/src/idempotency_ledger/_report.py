"""What the package logs: at most a line a second of each kind, without payloads, keys and tokens."""

from __future__ import annotations

import logging
import time
from typing import Dict, Tuple

from .errors import InvalidField, Steer
from .outcome import Outcome

_log = logging.getLogger("idempotency_ledger")
_EVERY = 1.0


class Report:
    """The log of one consumer: what its operators should know of deliveries."""

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer
        # By kind: when it was last logged, and how many were suppressed since. Kinds are reasons and types of errors.
        self._last: Dict[str, Tuple[float, int]] = {}

    def outcome(self, outcome: Outcome) -> None:
        """Logs a call that was refused or not answered, and an error of a handler that does not steer.

        Of an error its type is logged, and of the package's own `InvalidField` its text, which quotes no message.
        """
        if outcome.detail:
            self._warn(str(outcome.reason), f"{outcome.reason}: {outcome.detail}", outcome)
        error, name = outcome.error, type(outcome.error).__name__
        if isinstance(error, Steer):
            if error._of_guard:
                self._warn(f"guard: {error.reason}", f"guard: {error.reason} (see Outcome.error.__cause__)", outcome)
        elif isinstance(error, InvalidField):
            if outcome.detail != str(error):  # The fault of a key is logged above.
                self._warn(name, f"{name} was raised: {error}", outcome)
        elif error is not None:
            self._warn(name, f"{name} was raised (see Outcome.error)", outcome)

    def _warn(self, kind: str, what: str, outcome: Outcome) -> None:
        last, suppressed = self._last.get(kind, (float("-inf"), 0))
        now = time.monotonic()
        if now - last < _EVERY:
            self._last[kind] = (last, suppressed + 1)
            return
        self._last[kind] = (now, 0)
        before = f"; {suppressed} more of this kind were suppressed" if suppressed else ""
        _log.warning("%s: %s: %s%s", self._consumer, what, outcome.advice.value, before)
