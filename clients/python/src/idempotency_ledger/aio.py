"""The client for programs that use asyncio: the twin of `Ledger`."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import inspect
from types import TracebackType
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Coroutine, Optional, Set, Type, TypeVar, Union

from ._aio_transport import AioTransport
from ._aio_work import AsyncWorker
from ._claim import BaseClaim, Result, done_of, ending_of
from ._connection import Connection
from ._core.delivery import begin, finish
from ._core.holds import Hold
from ._core.inbox import store
from ._core.steps import Send, Steps
from ._decorator import JSON, Call, Codec, replayed
from ._options import Body, Delivery, Options, checked_concurrency
from ._report import Report
from ._telemetry import Telemetry
from .errors import Closed, GiveBack, InvalidField, Park, Steer
from .key import Fingerprint, Key
from .message import Message, StoredMessage
from .outcome import Outcome
from .shutdown import Shutdown

_T = TypeVar("_T")
if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _P = ParamSpec("_P")


class AsyncLedger:
    """A client of the ledger for one consumer, for asyncio. Its options are those of `Ledger`."""

    def __init__(
        self,
        consumer: str,
        connection: Optional[Connection] = None,
        *,
        lease: Optional[float] = None,
        owner: Optional[str] = None,
        unexpected: Type[Steer] = Park,
        repeat_announced: bool = False,
        handler_budget: Optional[float] = None,
        ack_wait: Optional[float] = None,
    ) -> None:
        self._options = Options(
            consumer,
            (connection or Connection()).resolved(),
            lease,
            owner,
            unexpected,
            repeat_announced,
            handler_budget,
            ack_wait,
        )
        self._telemetry = Telemetry(consumer)
        self._report = Report(consumer)
        self._transport = AioTransport(self._options.connection)
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._running = 0
        self._idle: Optional[asyncio.Future[None]] = None
        self._closing = False

    @property
    def consumer(self) -> str:
        """The group that processes, as it was given."""
        return self._options.consumer

    async def process(
        self,
        key: Key,
        handler: Callable[[AsyncClaim], Awaitable[Result]],
        *,
        body: Optional[Body] = None,
        fingerprint: Optional[Fingerprint] = None,
        occurred_at: Optional[datetime.datetime] = None,
        event_type: str = "",
        wait: float = 0.0,
    ) -> Outcome:
        """As `Ledger.process`. `handler` must not block the event loop: the lease could not be renewed.

        The handler is a task: a lost claim cancels it with the reason. The cancellation of the caller does not: the
        effect and its settlement go on, and `close` waits for them; a claim that is not granted yet is given back.
        """
        if not callable(handler):
            raise InvalidField("handler", "must be a coroutine function of the claim")
        scope = self.claim(
            key, body=body, fingerprint=fingerprint, occurred_at=occurred_at, event_type=event_type, wait=wait
        )
        return await self._shielded(self._process(scope, handler), scope)

    async def _process(self, scope: AsyncClaimScope, handler: Callable[[AsyncClaim], Awaitable[Result]]) -> Outcome:
        claim = scope._claim
        try:
            async with scope:
                if claim.granted:
                    work = handler(claim)
                    if not inspect.isawaitable(work):
                        found = type(work).__name__
                        raise InvalidField(
                            "handler", f"returned {found}, which cannot be awaited: Ledger runs plain functions"
                        )
                    claim.result = await work
        except Exception:
            if claim._outcome is None:
                raise  # It is the package's own: the delivery was not taken, or could not be settled.
        return claim.outcome

    def claim(
        self,
        key: Key,
        *,
        body: Optional[Body] = None,
        fingerprint: Optional[Fingerprint] = None,
        occurred_at: Optional[datetime.datetime] = None,
        event_type: str = "",
        wait: float = 0.0,
    ) -> AsyncClaimScope:
        """As `Ledger.claim`: ``async with ledger.claim(key) as claim``. A lost claim cancels the block, which then
        ends without an error; look at `claim.outcome` after it."""
        options = self._options
        request = options.request(Delivery(key, body, fingerprint, occurred_at, event_type, wait))
        return AsyncClaimScope(
            self, lambda stopping: begin(options.world, request, stopping, options.repeat_announced, key.fault)
        )

    async def store(
        self,
        key: Key,
        message: Message,
        *,
        fingerprint: Optional[Fingerprint] = None,
        occurred_at: Optional[datetime.datetime] = None,
    ) -> Outcome:
        """As `Ledger.store`."""
        request = self._options.store_request(key, message, fingerprint, occurred_at)
        if self._closing:
            raise Closed("the ledger's client closes: let the broker deliver the message again")
        self._running += 1
        try:
            outcome = await self._run(store(self._options.world, request, key.fault or message.fault))
        finally:
            self._leave()
        self._report.outcome(outcome)
        return outcome

    async def work(
        self,
        handler: Callable[[AsyncClaim, StoredMessage], Awaitable[Result]],
        stop: Optional[Shutdown] = None,
        *,
        concurrency: int = 1,
        grace: float = 20.0,
    ) -> bool:
        """As `Ledger.work`. `handler` must not block the event loop: leases could not be renewed.

        The cancellation of the caller ends the work as `stop` does; running effects go on, and `close` waits for them.
        """
        if not callable(handler):
            raise InvalidField("handler", "must be a coroutine function of the claim and the message")
        worker = AsyncWorker(self, handler, stop, checked_concurrency(concurrency), grace)
        try:
            return await asyncio.shield(self._spawn(worker.run()))
        except asyncio.CancelledError:
            worker.cancelled = True
            raise

    def idempotent(
        self,
        key: Callable[..., Key],
        *,
        body: Optional[Callable[..., Body]] = None,
        codec: Codec = JSON,
        wait: float = 0.0,
    ) -> Callable[[Callable[_P, Awaitable[_T]]], Callable[_P, Awaitable[_T]]]:
        """As `Ledger.idempotent`, for a coroutine function."""

        def decorate(function: Callable[_P, Awaitable[_T]]) -> Callable[_P, Awaitable[_T]]:
            call = Call(function, key, body, codec)

            async def once(*arguments: _P.args, **named: _P.kwargs) -> _T:
                async def handler(_claim: AsyncClaim) -> Result:
                    value: Result = call.encoded(await function(*arguments, **named))
                    return value

                outcome = await self.process(
                    call.key(arguments, named), handler, body=call.body(arguments, named), wait=wait
                )
                return replayed(outcome, codec)  # type: ignore[no-any-return]

            return call.named(once)

        return decorate

    def _scope(self, begins: Callable[[Callable[[], bool]], Steps[Union[Hold, Outcome]]]) -> AsyncClaimScope:
        return AsyncClaimScope(self, begins, handed=True)

    async def close(self, grace: float = 20.0) -> bool:
        """As `Ledger.close`. Deliveries whose callers were cancelled are waited for, too."""
        self._closing = True
        if self._running:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await asyncio.wait({self._idle}, timeout=grace)
            if self._running:
                return False
        await self._transport.close()
        return True

    async def __aenter__(self) -> AsyncLedger:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _leave(self) -> None:
        self._running -= 1
        if not self._running and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def _shielded(self, work: Coroutine[Any, Any, _T], scope: AsyncClaimScope) -> _T:
        """The work as a task that outlives the cancellation of its caller (rule 18)."""
        try:
            return await asyncio.shield(self._spawn(work))
        except asyncio.CancelledError:
            scope.abandoned = True
            raise

    def _spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)  # The event loop itself keeps no reference to a task.
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, steps: Steps[_T]) -> _T:
        answer = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Send):
                answer = await self._transport.send(step)
            else:
                await asyncio.sleep(step.seconds)
                answer = None


class AsyncClaim(BaseClaim):
    """A claim, as a handler in a task sees it."""

    def __init__(self, ledger: AsyncLedger, scope: AsyncClaimScope) -> None:
        super().__init__()
        self._ledger = ledger
        self._scope = scope

    async def announce(self) -> None:
        """As `Claim.announce`: start the effect after this has returned, and not otherwise."""
        await self._ledger._run(self._hold.announce())

    async def save(self, checkpoint: bytes) -> None:
        """As `Claim.save`: stores progress that the next attempt finds."""
        await self._ledger._run(self._hold.save(checkpoint))

    async def complete(self, result: Result = None) -> Outcome:
        """As `Claim.complete`: settles before the block ends."""
        return await self._ledger._shielded(self._ledger._run(finish(self._hold, done_of(result))), self._scope)


class AsyncClaimScope:
    """The block of `AsyncLedger.claim`."""

    def __init__(
        self,
        ledger: AsyncLedger,
        begins: Callable[[Callable[[], bool]], Steps[Union[Hold, Outcome]]],
        handed: bool = False,
    ) -> None:
        """As `ClaimScope`."""
        self.abandoned = False
        self._ledger = ledger
        self._begins = begins
        self._handed = handed
        self._claim = AsyncClaim(ledger, self)
        self._ends = contextlib.ExitStack()
        self._keeping: Optional[asyncio.Task[None]] = None
        self._in_block = False
        self._cancelled = False

    async def __aenter__(self) -> AsyncClaim:
        ledger = self._ledger
        if ledger._closing and not self._handed:
            raise Closed("the ledger's client closes: let the broker deliver the message again")
        ledger._running += 1
        self._outcomes = self._ends.enter_context(ledger._telemetry.delivery())
        begins = asyncio.ensure_future(ledger._run(self._begins(self._stopping)))
        try:
            begun = await asyncio.shield(begins)
        except BaseException:
            self.abandoned = True
            self._ends.close()
            ledger._spawn(self._give_back(begins))
            raise
        if isinstance(begun, Hold):
            self._claim._held = begun
            self._block = asyncio.current_task()
            self._in_block = True
            self._keeping = asyncio.ensure_future(self._keep(begun))
        else:
            self._claim._outcome = begun
            ledger._leave()
        return self._claim

    async def _give_back(self, begins: asyncio.Future[Union[Hold, Outcome]]) -> None:
        """Releases what was granted to a caller that is gone: no handler has run."""
        try:
            begun = await begins
            if isinstance(begun, Hold):
                await self._ledger._run(finish(begun, GiveBack()))
        except Closed:
            pass
        finally:
            self._ledger._leave()

    def _stopping(self) -> bool:
        return self.abandoned or self._ledger._closing

    async def _keep(self, hold: Hold) -> None:
        hold.lost = await self._ledger._run(hold.renewing())
        if hold.lost and self._in_block and self._block is not None:
            self._cancelled = True
            self._block.cancel(f"the claim is lost: {hold.lost}")

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        self._in_block = False
        with self._ends:
            if self._claim._held is not None:
                await self._ledger._shielded(self._finish(self._claim._held, error), self)
            self._outcomes.append(self._claim.outcome)
            self._ledger._report.outcome(self._claim.outcome)
        if self._cancelled and isinstance(error, asyncio.CancelledError):
            # The cancellation was this claim's own, unless the caller has cancelled the block as well.
            uncancel = getattr(self._block, "uncancel", None)
            return not uncancel() if uncancel else True
        return isinstance(error, Steer) and self._claim.granted

    async def _finish(self, hold: Hold, error: Optional[BaseException]) -> None:
        ledger = self._ledger
        try:
            ending = ending_of(self._claim.result, error)
            self._claim._outcome = await ledger._run(finish(hold, ending, ledger._options.unexpected))
        finally:
            if self._keeping is not None:
                self._keeping.cancel()
            ledger._leave()
