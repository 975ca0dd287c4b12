"""Counts the deliveries that are under way in threads, so that a close can wait for them."""

from __future__ import annotations

import threading


class Inflight:
    """How many deliveries run, and whether new ones are still taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self.closing = False

    def enter(self, always: bool = False) -> bool:
        """A delivery begins; False where none is taken any more, unless it is `always` counted."""
        with self._changed:
            taken = always or not self.closing
            if taken:
                self._count += 1
            return taken

    def leave(self) -> None:
        """A delivery has ended."""
        with self._changed:
            self._count -= 1
            self._changed.notify_all()

    def close(self, grace: float) -> bool:
        """Takes no new delivery, and waits for those that run. False where some still run after `grace` seconds."""
        with self._changed:
            self.closing = True
            return self._changed.wait_for(lambda: self._count == 0, min(grace, threading.TIMEOUT_MAX))
