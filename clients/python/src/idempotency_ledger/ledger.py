"""The client for programs that use threads."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import os
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Callable, Optional, Type, TypeVar, Union

from ._claim import BaseClaim, Result, done_of, ending_of
from ._connection import Connection
from ._core.delivery import begin, finish
from ._core.holds import Hold
from ._core.inbox import store
from ._core.steps import Send, Steps
from ._decorator import JSON, Call, Codec, replayed
from ._inflight import Inflight
from ._options import Body, Delivery, Options, checked_concurrency
from ._renewer import Renewer
from ._report import Report
from ._sync_transport import SyncTransport
from ._telemetry import Telemetry
from ._work import Worker
from .errors import Closed, InvalidField, Park, Steer
from .key import Fingerprint, Key
from .message import Message, StoredMessage
from .outcome import Outcome
from .shutdown import Shutdown

_T = TypeVar("_T")
if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _P = ParamSpec("_P")


class _State:
    """What a forked process must not inherit: channel, thread, counts."""

    def __init__(self, connection: Connection) -> None:
        self.transport = SyncTransport(connection)
        self.renewer = Renewer(self.transport.start)
        self.inflight = Inflight()


_ledgers: weakref.WeakSet[Ledger] = weakref.WeakSet()


def _forked() -> None:
    for ledger in list(_ledgers):
        ledger._state = _State(ledger._options.connection)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Ledger:
    """A client of the ledger for one consumer. It may be shared by threads, and be made before a process forks.

    `consumer`: the group that processes, 1 to 128 bytes; not a process. `connection`: see `Connection`; by default the
    environment says all of it. `lease`: seconds that a claim is held unless it is renewed, from 1 on; it is renewed at
    a third of that. `None`: the policy's (30 s). `owner`: who asks, for people; by default host and process.

    `unexpected`: what an error of a handler means that is none of `Steer`: `Park` (default: a person looks), `Retry`
    (only where no error of the handler can follow its effect), or `Doubtful` (only with a guard or a fence).
    `repeat_announced`: process also where an earlier attempt had announced its effect; by default it is parked.

    `handler_budget` and `ack_wait`: the longest time in seconds that a handler takes, and that the broker waits for
    an acknowledgement. They are compared, and warned of, and nothing else.

    Nothing is sent before the first delivery. Raises `InvalidField` for an option beyond its bound.
    """

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
        self._state = _State(self._options.connection)
        _ledgers.add(self)

    @property
    def consumer(self) -> str:
        """The group that processes, as it was given."""
        return self._options.consumer

    def process(
        self,
        key: Key,
        handler: Callable[[Claim], Result],
        *,
        body: Optional[Body] = None,
        fingerprint: Optional[Fingerprint] = None,
        occurred_at: Optional[datetime.datetime] = None,
        event_type: str = "",
        wait: float = 0.0,
    ) -> Outcome:
        """Processes one delivery: claims the message, runs the handler where it is granted, settles, and advises.

        `handler` is given the `Claim`; what it returns is the result. It raises `Retry`, `Terminal`, `Park` or
        `Doubtful` to say how its attempt ended; any other error means what `unexpected` says, and is in
        `Outcome.error`. `body`: the broker's raw body, of which the fingerprint is made; or give a `fingerprint`.
        `occurred_at`: when the producer made the message, with its time zone. `event_type`: a label of metrics.
        `wait`: for how many seconds to wait while another attempt holds the message; for callers who need its result.

        Never raises what the ledger answers: `Outcome.advice` says what to do. Raises `InvalidField` and `Closed`
        before anything is sent, and what is not an `Exception`, such as KeyboardInterrupt: then nothing is settled.
        """
        if not callable(handler) or inspect.iscoroutinefunction(handler):
            raise InvalidField("handler", "must be a plain function of the claim; AsyncLedger runs coroutine functions")
        scope = self.claim(
            key, body=body, fingerprint=fingerprint, occurred_at=occurred_at, event_type=event_type, wait=wait
        )
        return self._process(scope, handler)

    def _process(self, scope: ClaimScope, handler: Callable[[Claim], Result]) -> Outcome:
        claim = scope._claim
        try:
            with scope:
                if claim.granted:
                    claim.result = handler(claim)
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
    ) -> ClaimScope:
        """The same as a block: ``with ledger.claim(key) as claim: if claim.granted: claim.result = …``.

        Leaving the block settles: without an error as completed with `claim.result`, with `Retry`, `Terminal`, `Park`,
        `Doubtful` or `GiveBack` by that (the error ends there), with any other error by `unexpected` (it goes on).
        """
        options = self._options
        request = options.request(Delivery(key, body, fingerprint, occurred_at, event_type, wait))
        return ClaimScope(
            self, lambda stopping: begin(options.world, request, stopping, options.repeat_announced, key.fault)
        )

    def store(
        self,
        key: Key,
        message: Message,
        *,
        fingerprint: Optional[Fingerprint] = None,
        occurred_at: Optional[datetime.datetime] = None,
    ) -> Outcome:
        """Stores a message in the ledger's inbox; `work` processes it later. Acknowledge the broker's on ACK alone.

        The fingerprint is that of the payload unless another one is given. `Outcome.reason` is `None` where the message
        is stored, ``already_stored`` or ``completed`` (both `replayed`) where the ledger knows it; else why it is not:
        ``fingerprint_mismatch``, ``outside_window``, ``failed``, or the ledger's reason, such as ``INBOX_OFF``, or
        ``BACKLOG_FULL`` with its `delay`. A message beyond its bounds is not sent: DEAD_LETTER, with an `InvalidField`
        in `Outcome.error`. Raises `InvalidField` and `Closed` before anything is sent.
        """
        request = self._options.store_request(key, message, fingerprint, occurred_at)
        state = self._state
        if not state.inflight.enter():
            raise Closed("the ledger's client closes: let the broker deliver the message again")
        try:
            outcome = self._run(store(self._options.world, request, key.fault or message.fault))
        finally:
            state.inflight.leave()
        self._report.outcome(outcome)
        return outcome

    def work(
        self,
        handler: Callable[[Claim, StoredMessage], Result],
        stop: Optional[Shutdown] = None,
        *,
        concurrency: int = 1,
        grace: float = 20.0,
    ) -> bool:
        """Processes the messages of the inbox until `stop` is requested, or `close` is called by another thread.

        `handler` is given the claim and the message; it returns and raises what a handler of `process` does. At most
        `concurrency` of them run at the same time (1 to 1000), and never two of one message. A message that waits here
        for a handler is renewed. At the end those that have not begun are released, and those that run end and settle,
        for at most `grace` seconds. Returns False where one still runs then.

        While a message runs whose lease ran out twice in a row, no other handler of this call runs: it may have killed
        the earlier processes. These bounds hold within one call of `work`: a process needs only one.
        Raises `InvalidField` and `Closed` before anything is sent.
        """
        if not callable(handler) or inspect.iscoroutinefunction(handler):
            raise InvalidField("handler", "must be a plain function of the claim and the message")
        return Worker(self, handler, stop, checked_concurrency(concurrency), grace).run()

    def idempotent(
        self,
        key: Callable[..., Key],
        *,
        body: Optional[Callable[..., Body]] = None,
        codec: Codec = JSON,
        wait: float = 0.0,
    ) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
        """Makes a function idempotent: ``@ledger.idempotent(key=lambda order: Key.of("shop", order.id))``.

        `key` and `body` are called with the function's arguments. A repeated call returns the first one's result, as
        `codec` reads it back. Raises what the function raises, and `NoResult` where there is nothing to return.
        """

        def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
            if inspect.iscoroutinefunction(function):
                raise InvalidField("function", "is a coroutine function: make it idempotent by an AsyncLedger")
            call = Call(function, key, body, codec)

            def once(*arguments: _P.args, **named: _P.kwargs) -> _T:
                with self.claim(call.key(arguments, named), body=call.body(arguments, named), wait=wait) as claim:
                    if claim.granted:
                        claim.result = call.encoded(function(*arguments, **named))
                value: _T = replayed(claim.outcome, codec)
                return value

            return call.named(once)

        return decorate

    def _scope(self, begins: Callable[[Callable[[], bool]], Steps[Union[Hold, Outcome]]]) -> ClaimScope:
        return ClaimScope(self, begins, handed=True)

    def close(self, grace: float = 20.0) -> bool:
        """Takes no new delivery, and lets running effects end and settle, for at most `grace` seconds.

        A delivery whose claim arrives meanwhile gives it back. Returns False where an effect still runs: it may go on,
        and the process should end; the lease then ends by itself.
        """
        ended = self._state.inflight.close(grace)
        if ended:
            self._state.transport.close()
        return ended

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, steps: Steps[_T]) -> _T:
        transport, answer = self._state.transport, None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if isinstance(step, Send):
                answer = transport.send(step)
            else:
                time.sleep(step.seconds)
                answer = None


class Claim(BaseClaim):
    """A claim, as a handler in a thread sees it."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self._ledger = ledger
        self.cancelled = threading.Event()
        """Set when the claim is lost. A handler that waits for something else waits for this as well."""

    def announce(self) -> None:
        """Tells the ledger that an effect is about to start which can be neither fenced nor deduplicated.

        Start the effect after this has returned, and not otherwise. Raises `NotProtected` where the policy would not
        park the message should this process die, `AnnouncementFailed` where the ledger has not confirmed it, and
        `ClaimLost`: let all of them pass.
        """
        self._ledger._run(self._hold.announce())

    def save(self, checkpoint: bytes) -> None:
        """Stores progress that the next attempt finds. Raises `CheckpointDropped` where it is not stored."""
        self._ledger._run(self._hold.save(checkpoint))

    def complete(self, result: Result = None) -> Outcome:
        """Settles before the block ends: the effect is done. Nothing that follows is settled by it any more."""
        return self._ledger._run(finish(self._hold, done_of(result)))


class ClaimScope:
    """The block of `Ledger.claim`."""

    def __init__(
        self,
        ledger: Ledger,
        begins: Callable[[Callable[[], bool]], Steps[Union[Hold, Outcome]]],
        handed: bool = False,
    ) -> None:
        """`begins`: the steps before the handler, given what says that the client closes. `handed`: of a worker."""
        self._ledger = ledger
        self._begins = begins
        self._handed = handed
        self._claim = Claim(ledger)
        self._kept = 0
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> Claim:
        ledger, claim = self._ledger, self._claim
        self._state = state = ledger._state
        if not state.inflight.enter(self._handed):
            raise Closed("the ledger's client closes: let the broker deliver the message again")
        self._ends.callback(state.inflight.leave)
        with contextlib.ExitStack() as failed:
            failed.callback(self._ends.close)
            self._outcomes = self._ends.enter_context(ledger._telemetry.delivery())
            begun = ledger._run(self._begins(lambda: state.inflight.closing))
            if isinstance(begun, Hold):
                claim._held = begun
                self._kept = state.renewer.keep(begun, self._lost)
                self._ends.callback(state.renewer.drop, self._kept)
            else:
                claim._outcome = begun
            failed.pop_all()
        return claim

    def _lost(self, reason: str) -> None:
        self._claim._hold.lost = reason
        self._claim.cancelled.set()

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> bool:
        ledger, claim = self._ledger, self._claim
        with self._ends:
            if claim._held is not None:
                ending = ending_of(claim.result, error)
                # The lease is renewed meanwhile: no other attempt begins while this one is reported.
                claim._outcome = ledger._run(finish(claim._held, ending, ledger._options.unexpected))
            self._outcomes.append(claim.outcome)
            ledger._report.outcome(claim.outcome)
        return isinstance(error, Steer) and claim.granted
