"""How a process stops in good order: by a signal, within a bound."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any, Callable, List, Sequence


class Shutdown:
    """From the first SIGTERM or SIGINT on `requested` is true; a second one, or the end of `grace`, ends the process.

    Make it in the main thread. After it was requested: take no new message, and call `close` of the ledger, which
    waits for running effects; then let the process end. `grace`: seconds that all of that may take, after which the
    process ends with the code 1, whatever it is doing; give the supervisor a longer time.

    Python runs the handler of a signal in the main thread, between two instructions: a main thread that waits in a call
    without a timeout (a read, a poll of a broker) may not notice the signal before that call returns. Give it one.
    """

    def __init__(
        self, grace: float = 20.0, signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT)
    ) -> None:
        self._grace = grace
        self._signals = tuple(signals)
        self._event = threading.Event()
        self._callbacks: List[Callable[[], object]] = []
        for number in self._signals:
            signal.signal(number, self._first)

    @property
    def requested(self) -> bool:
        """A signal has asked the process to stop."""
        return self._event.is_set()

    def wait(self, timeout: float) -> bool:
        """Waits for the request, at most `timeout` seconds; returns `requested`. For pauses in a loop of threads."""
        return self._event.wait(timeout)

    async def until_requested(self) -> None:
        """Waits for the request, in an event loop."""
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        self._callbacks.append(lambda: loop.call_soon_threadsafe(arrived.set))
        if not self.requested:
            await arrived.wait()

    def _first(self, _number: int, _frame: Any) -> None:
        for number in self._signals:
            signal.signal(number, signal.SIG_DFL)
        watchdog = threading.Timer(self._grace, os._exit, (1,))
        watchdog.daemon = True
        watchdog.start()
        self._event.set()
        for callback in self._callbacks:
            callback()
