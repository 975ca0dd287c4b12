"""The one thread that renews the leases of a `Ledger`. It exists only while a lease is held, and for a second after."""

from __future__ import annotations

import collections
import heapq
import itertools
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ._core.holds import Hold
from ._core.steps import Send, Steps

_LINGER = 1.0


class Renewer:
    """Drives `Hold.renewing` of many holds without waiting for any of their calls."""

    def __init__(self, start: Callable[[Send, Callable[[Any], None]], None]) -> None:
        """`start`: sends a call, and hands its answer to the function when it has arrived."""
        self._start = start
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._kept: Dict[int, Tuple[Steps[Optional[str]], Callable[[str], None]]] = {}
        self._due: List[Tuple[float, int]] = []
        self._arrived: Deque[Tuple[int, Any]] = collections.deque()
        self._thread: Optional[threading.Thread] = None

    def keep(self, hold: Hold, lost: Callable[[str], None]) -> int:
        """Renews the hold until it is dropped; calls `lost` with the reason where the claim is lost."""
        with self._changed:
            number = next(self._numbers)
            self._kept[number] = (hold.renewing(), lost)
            self._arrived.append((number, None))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="idempotency-ledger-renewer", daemon=True)
                self._thread.start()
            self._changed.notify()
            return number

    def drop(self, number: int) -> None:
        """Renews it no longer. An answer that still arrives is ignored."""
        with self._changed:
            self._kept.pop(number, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                found = self._next()
                if found is None:
                    self._thread = None
                    return
                number, answer = found
                steps, lost = self._kept[number]
            self._advance(number, steps, lost, answer)

    def _next(self) -> Optional[Tuple[int, Any]]:
        """Waits for the next step of a hold that is kept; `None` where none was kept for a while."""
        idle_until = time.monotonic() + _LINGER
        while True:
            now = time.monotonic()
            if self._due and self._due[0][0] <= now:
                self._arrived.append((heapq.heappop(self._due)[1], None))
            while self._arrived:
                number, answer = self._arrived.popleft()
                if number in self._kept:
                    return number, answer
            if self._kept:
                idle_until = now + _LINGER
            elif now >= idle_until:
                self._due.clear()
                return None
            wake = [self._due[0][0]] if self._due else []
            self._changed.wait(max(0.0, min([*wake, idle_until]) - now))

    def _advance(self, number: int, steps: Steps[Optional[str]], lost: Callable[[str], None], answer: Any) -> None:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            self.drop(number)
            if end.value is not None:
                lost(end.value)
            return
        if isinstance(step, Send):
            self._start(step, lambda arrived: self._answer(number, arrived))
            return
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + step.seconds, number))

    def _answer(self, number: int, answer: Any) -> None:
        with self._changed:
            self._arrived.append((number, answer))
            self._changed.notify()
