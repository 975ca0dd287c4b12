"""NATS JetStream: a pull consumer whose messages are each processed once. Needs the extra `nats`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Awaitable, Callable, Optional, Set, Union

import nats.errors
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy

from .._claim import Result
from ..aio import AsyncClaim, AsyncLedger
from ..errors import Closed
from ..key import Key
from ..message import Message
from ..outcome import Advice, Outcome
from ..shutdown import Shutdown
from . import Named, NoId, Store, cloud_event

_log = logging.getLogger("idempotency_ledger")
_FETCH = 1.0  # seconds that a fetch waits for messages: a request to stop is noticed after it
_CONCURRENCY_MAX = 1000

Handler = Union[Callable[[AsyncClaim, Msg], Awaitable[Result]], Store]
DeadLetter = Callable[[Msg, Optional[Outcome]], Awaitable[None]]


def named(message: Msg) -> Named:
    """The name of a message: that of its CloudEvent, else its stream and its header `Nats-Msg-Id`."""
    headers = message.headers or {}
    event = cloud_event(headers, message.data)
    if event is not None:
        return event
    id = headers.get("Nats-Msg-Id")
    if not id:
        raise NoId("the message has neither the attributes of a CloudEvent nor the header Nats-Msg-Id")
    return Named(Key.of(message.metadata.stream, id))


def stored(message: Msg) -> Message:
    """The message for the inbox, with its subject and its place in the stream."""
    headers = [(name, value.encode()) for name, value in (message.headers or {}).items()]
    return Message(message.data, headers, topic=message.subject, offset=message.metadata.sequence.stream)


def to_subject(stream: JetStreamContext, subject: str) -> DeadLetter:
    """Stores dead letters under a subject of JetStream, each once for a message of the broker.

    A copy has no header that begins with ``Nats-``: the stream of the copy would act on it (``Nats-Rollup`` deletes
    what it has stored). The producer's ``Nats-Msg-Id`` becomes ``Dead-Letter-Msg-Id``.
    """

    async def publish(message: Msg, outcome: Optional[Outcome]) -> None:
        # The id names the broker's message, not the event: a replay that is dead-lettered again is not dropped.
        place = message.metadata
        reason = (outcome.reason if outcome else None) or ""
        sent = message.headers or {}
        headers = {
            **{name: value for name, value in sent.items() if not name.lower().startswith("nats-")},
            **({"Dead-Letter-Msg-Id": sent["Nats-Msg-Id"]} if "Nats-Msg-Id" in sent else {}),
            "Nats-Msg-Id": f"{subject}/{place.stream}/{place.sequence.stream}",
            "Dead-Letter-Reason": reason.encode("ascii", "replace").decode(),
        }
        await stream.publish(subject, message.data, headers=headers)

    return publish


class JetStreamConsumer:
    """Processes the messages of a pull subscription: ``await JetStreamConsumer(ledger, subscription, pay).run(stop)``.

    `handler` is given the claim and the message; it returns and raises what a handler of `AsyncLedger.process` does.
    `named`: the name of a message, or `NoId`; by default see `named`. `dead_letter`: stores a safe copy, see
    `to_subject`; `None`: the message is terminated, and stays in its stream as long as the stream keeps messages.
    `concurrency`: how many messages are processed at the same time, 1 to 1000.

    What each outcome becomes: ACK is `ack`; RETRY_LATER is `nak` with the outcome's delay; DEAD_LETTER is the copy,
    then `ack`, or `term`. While a message is processed `in_progress` extends its `ack_wait` at a third of it.

    With `STORE` in place of a handler it stores the messages in the inbox.
    """

    def __init__(
        self,
        ledger: AsyncLedger,
        subscription: JetStreamContext.PullSubscription,
        handler: Handler,
        *,
        named: Callable[[Msg], Named] = named,
        dead_letter: Optional[DeadLetter] = None,
        concurrency: int = 1,
    ) -> None:
        if not 1 <= concurrency <= _CONCURRENCY_MAX:
            raise ValueError(f"concurrency is {concurrency}; 1 to {_CONCURRENCY_MAX} are allowed")
        self._ledger = ledger
        self._subscription = subscription
        self._handler = handler
        self._named = named
        self._dead_letter = dead_letter
        self._slots = asyncio.Semaphore(concurrency)
        self._extend_every = 10.0
        self._failure: Optional[BaseException] = None

    async def run(self, stop: Shutdown) -> None:
        """Takes messages until `stop` is requested; returns when those that it has taken are settled.

        Raises what the broker's client raises where no message can be fetched, and what the program itself has wrong
        (`InvalidField`, an error of `named`), after the running messages have ended.
        """
        config = (await self._subscription.consumer_info()).config
        if config.ack_policy not in (None, AckPolicy.EXPLICIT):
            raise ValueError(
                f"the consumer's ack_policy is {config.ack_policy}; explicit is needed: a message is settled alone"
            )
        self._extend_every = (config.ack_wait or 30.0) / 3
        if config.max_deliver is not None and config.max_deliver > 0:
            _log.warning(
                "the consumer's max_deliver is %d: JetStream drops a message after that many deliveries, whatever "
                "became of it; set -1, and let the ledger's policy bound the attempts",
                config.max_deliver,
            )
        tasks: Set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._failure = self._failure or (None if task.cancelled() else task.exception())

        try:
            while not stop.requested and self._failure is None:
                await self._slots.acquire()
                message = await self._next()
                if message is None:
                    self._slots.release()
                elif stop.requested:
                    self._slots.release()
                    await message.nak()  # Nothing was done with it: another process may have it now.
                else:
                    task = asyncio.ensure_future(self._settled(message))
                    tasks.add(task)
                    task.add_done_callback(ended)
        finally:
            if tasks:
                await asyncio.wait(tasks)
        if self._failure is not None:
            raise self._failure

    async def _next(self) -> Optional[Msg]:
        try:
            return (await self._subscription.fetch(1, timeout=_FETCH))[0]
        except nats.errors.TimeoutError:
            return None

    async def _settled(self, message: Msg) -> None:
        extending = asyncio.ensure_future(self._extended(message))
        try:
            await self._answer(message, await self._outcome(message))
        except nats.errors.Error as error:
            # JetStream delivers it again, and the ledger knows what became of it.
            _log.warning("a message was not acknowledged: %s", type(error).__name__)
        finally:
            extending.cancel()
            self._slots.release()

    async def _outcome(self, message: Msg) -> Optional[Outcome]:
        """What became of the message; `None` where it has no name."""
        try:
            name = self._named(message)
        except NoId as error:
            _log.error("a message of stream %s is dead-lettered: %s", message.metadata.stream, error)
            return None
        handler = self._handler
        try:
            if isinstance(handler, Store):
                return await self._ledger.store(name.key, stored(message), occurred_at=name.occurred_at)
            return await self._ledger.process(
                name.key,
                lambda claim: handler(claim, message),
                body=message.data,
                occurred_at=name.occurred_at,
            )
        except Closed:
            return Outcome(Advice.RETRY_LATER, delay=1.0, reason="CLOSING")

    async def _answer(self, message: Msg, outcome: Optional[Outcome]) -> None:
        if outcome is not None and outcome.advice is Advice.RETRY_LATER:
            await message.nak(delay=outcome.delay or None)
        elif outcome is not None and outcome.advice is Advice.ACK:
            await message.ack()
        elif self._dead_letter is None:
            await message.term()
        else:
            await self._dead_letter(message, outcome)
            await message.ack()

    async def _extended(self, message: Msg) -> None:
        """Keeps JetStream from delivering the message again while it is processed here."""
        while True:
            await asyncio.sleep(self._extend_every)
            with contextlib.suppress(nats.errors.Error):
                await message.in_progress()
