"""The worker of a `Ledger`: the caller's thread takes messages of the inbox, and threads run their handlers."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Callable, Optional

from ._claim import Result
from ._core.delivery import admitted
from ._core.inbox import Item, WorkQueue, release, take
from ._proto import ledger_pb2 as pb
from .errors import Closed
from .message import StoredMessage, stored_message
from .shutdown import Shutdown

if TYPE_CHECKING:
    from .ledger import Claim, Ledger

_LOOK = 0.05  # seconds between two looks at whether to stop
LEASE = 30.0  # seconds: the lease that is taken for granted before the first handout says what it is


class Worker:
    """One call of `Ledger.work`."""

    def __init__(
        self,
        ledger: Ledger,
        handler: Callable[[Claim, StoredMessage], Result],
        stop: Optional[Shutdown],
        concurrency: int,
        grace: float,
    ) -> None:
        self._ledger = ledger
        self._handler = handler
        self._stop = stop
        self._grace = grace
        self._state = ledger._state
        self._changed = threading.Condition()
        self._queue = WorkQueue(concurrency, ledger._options.lease or LEASE)
        self._over = False
        self._failure: Optional[BaseException] = None

    def run(self) -> bool:
        """Works until it is asked to stop; False where a handler still runs after the grace."""
        if not self._state.inflight.enter():
            raise Closed("the ledger's client closes: no message is taken")
        try:
            try:
                for _ in range(self._queue.concurrency):
                    threading.Thread(target=self._serve, name="idempotency-ledger-worker", daemon=True).start()
                self._take()
            finally:
                ended = self._drain()
        finally:
            self._state.inflight.leave()
        if self._failure is not None:
            raise self._failure
        return ended

    def _stopping(self) -> bool:
        asked = self._stop is not None and self._stop.requested
        return asked or self._state.inflight.closing or self._failure is not None

    def _take(self) -> None:
        request: Optional[pb.ClaimNextRequest] = None
        while not self._stopping():
            with self._changed:
                most = self._queue.room()
                if request is None and not most:
                    self._changed.wait(_LOOK)
                    continue
                wait = self._queue.wait()
            if request is None:
                request = self._ledger._options.next_request(most, wait)
            handout = self._ledger._run(take(self._ledger._options.world, request))
            if not handout.again:
                request = None
            if handout.refused is not None:
                self._ledger._report.outcome(handout.refused)
            items = [Item(hold, stored_message(handed)) for hold, handed in handout.messages]
            try:
                for item in items:
                    item.renewing = self._state.renewer.keep(item.hold, self._losing(item))
            finally:  # Also where no thread can be started: what is in the queue is released.
                with self._changed:
                    self._queue.add(items)
                    self._changed.notify_all()
            self._pause(handout.pause)

    def _losing(self, item: Item) -> Callable[[str], None]:
        def lost(reason: str) -> None:
            with self._changed:
                item.hold.lost = reason
                self._changed.notify_all()  # A suspect holds up the others no longer.

        return lost

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping() and (left := until - time.monotonic()) > 0:
            time.sleep(min(_LOOK, left))

    def _serve(self) -> None:
        """Runs handlers, one after the other."""
        while True:
            with self._changed:
                while (item := self._queue.next()) is None:
                    if self._over:
                        return
                    self._changed.wait()
            began = time.monotonic()
            try:
                self._process(item)
            except BaseException as error:
                self._failure = self._failure or error
            finally:
                with self._changed:
                    self._queue.ended(item, time.monotonic() - began)
                    self._changed.notify_all()

    def _process(self, item: Item) -> None:
        ledger = self._ledger
        self._state.renewer.drop(item.renewing)  # From here on the scope renews it.
        scope = ledger._scope(lambda _: admitted(item.hold, self._stopping, ledger._options.repeat_announced))
        ledger._process(scope, lambda claim: self._handler(claim, item.message))

    def _drain(self) -> bool:
        """Releases what has not begun, and waits for what runs."""
        until = time.monotonic() + self._grace
        with self._changed:
            waiting = self._queue.drain()
            self._over = True
            self._changed.notify_all()
        for item in waiting:
            try:
                if item.hold.lost is None and time.monotonic() < until:
                    self._ledger._run(release(item.hold, until - time.monotonic()))
            except BaseException as error:  # The others are released all the same.
                self._failure = self._failure or error
            finally:
                self._state.renewer.drop(item.renewing)
        with self._changed:
            left = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
            return self._changed.wait_for(lambda: not self._queue.running, left)
