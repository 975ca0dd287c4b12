"""The worker of an `AsyncLedger`: one task takes messages of the inbox, and each handler is a task."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Awaitable, Callable, Optional

from ._claim import Result
from ._core.delivery import admitted
from ._core.inbox import Item, WorkQueue, release, take
from ._proto import ledger_pb2 as pb
from ._work import LEASE
from .errors import Closed
from .message import StoredMessage, stored_message
from .shutdown import Shutdown

if TYPE_CHECKING:
    from .aio import AsyncClaim, AsyncLedger

_LOOK = 0.05  # seconds between two looks at whether to stop


class AsyncWorker:
    """One call of `AsyncLedger.work`."""

    def __init__(
        self,
        ledger: AsyncLedger,
        handler: Callable[[AsyncClaim, StoredMessage], Awaitable[Result]],
        stop: Optional[Shutdown],
        concurrency: int,
        grace: float,
    ) -> None:
        self.cancelled = False
        self._ledger = ledger
        self._handler = handler
        self._stop = stop
        self._grace = grace
        self._queue = WorkQueue(concurrency, ledger._options.lease or LEASE)
        self._changed = asyncio.Event()
        self._failure: Optional[BaseException] = None

    async def run(self) -> bool:
        """Works until it is asked to stop; False where a handler still runs after the grace."""
        ledger = self._ledger
        if ledger._closing:
            raise Closed("the ledger's client closes: no message is taken")
        ledger._running += 1
        try:
            try:
                await self._take()
            finally:
                ended = await self._drain()
        finally:
            ledger._leave()
        if self._failure is not None:
            raise self._failure
        return ended

    def _stopping(self) -> bool:
        asked = self._stop is not None and self._stop.requested
        return asked or self.cancelled or self._ledger._closing or self._failure is not None

    async def _take(self) -> None:
        request: Optional[pb.ClaimNextRequest] = None
        while not self._stopping():
            most = self._queue.room()
            if request is None and not most:
                await self._wait(_LOOK)
                continue
            if request is None:
                request = self._ledger._options.next_request(most, self._queue.wait())
            handout = await self._ledger._run(take(self._ledger._options.world, request))
            if not handout.again:
                request = None
            if handout.refused is not None:
                self._ledger._report.outcome(handout.refused)
            items = [Item(hold, stored_message(handed)) for hold, handed in handout.messages]
            for item in items:
                item.renewing = asyncio.ensure_future(self._renewed(item))
            self._queue.add(items)
            self._begin()
            until = time.monotonic() + handout.pause
            while not self._stopping() and (left := until - time.monotonic()) > 0:
                await asyncio.sleep(min(_LOOK, left))

    async def _renewed(self, item: Item) -> None:
        item.hold.lost = await self._ledger._run(item.hold.renewing())
        self._begin()  # A suspect holds up the others no longer.
        self._changed.set()

    async def _wait(self, seconds: float) -> None:
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    def _begin(self) -> None:
        """Begins what may begin now."""
        while (item := self._queue.next()) is not None:
            self._ledger._spawn(self._process(item))

    async def _process(self, item: Item) -> None:
        ledger, began = self._ledger, time.monotonic()
        try:
            if item.renewing is not None:
                item.renewing.cancel()  # From here on the scope renews it.
            scope = ledger._scope(lambda _: admitted(item.hold, self._stopping, ledger._options.repeat_announced))
            await ledger._process(scope, lambda claim: self._handler(claim, item.message))
        except BaseException as error:
            self._failure = self._failure or error
        finally:
            self._queue.ended(item, time.monotonic() - began)
            self._begin()
            self._changed.set()

    async def _drain(self) -> bool:
        """Releases what has not begun, and waits for what runs."""
        until = time.monotonic() + self._grace
        for item in self._queue.drain():
            try:
                if item.hold.lost is None and time.monotonic() < until:
                    await self._ledger._run(release(item.hold, until - time.monotonic()))
            except Exception as error:  # The others are released all the same.
                self._failure = self._failure or error
            finally:
                if item.renewing is not None:
                    item.renewing.cancel()
        while self._queue.running and (left := until - time.monotonic()) > 0:
            await self._wait(left)
        return not self._queue.running
