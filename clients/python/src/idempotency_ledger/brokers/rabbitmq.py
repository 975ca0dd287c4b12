"""RabbitMQ: a queue whose messages are each processed once. Needs the extra `rabbitmq` (aio-pika)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Awaitable, Callable, Dict, Optional, Set, Union

from aio_pika import DeliveryMode, Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPError, ChannelNotFoundEntity

from .._claim import Result
from ..aio import AsyncClaim, AsyncLedger
from ..errors import Closed
from ..key import Key
from ..message import Message as Kept
from ..outcome import Advice, Outcome
from ..shutdown import Shutdown
from . import Named, NoId, Store, cloud_event

_log = logging.getLogger("idempotency_ledger")
_CONCURRENCY_MAX = 1000
# A delay queue for each of these seconds: a message waits in the longest one that does not exceed its delay, or in
# the first. A queue has one delay: RabbitMQ expires its head alone, so that a longer delay would hold up the others.
_DELAYS = (1, 2, 5, 10, 30, 60, 300, 900)
# A message leaves a delay queue when the other queue has confirmed it, and not before: a classic queue would lose it in
# between. The package for Go declares the same.
_CONFIRMED = {"x-queue-type": "quorum", "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
_CONFIRM = 10.0  # seconds within which the broker confirms a copy
_COPY_AGAIN = 1.0  # seconds before a copy that was not confirmed is sent again
# aio-pika gives each message that it publishes an id. This header marks the copy of a message that had none.
_WITHOUT_ID = "without-message-id"

Handler = Union[Callable[[AsyncClaim, AbstractIncomingMessage], Awaitable[Result]], Store]


def named(queue: str, message: AbstractIncomingMessage) -> Named:
    """The name of a message: that of its CloudEvent, else the queue and the property `message_id`.

    The id of a copy that has the header ``without-message-id`` is not read: its producer did not send it.
    """
    headers = {name: str(value) for name, value in (message.headers or {}).items()}
    if message.content_type:
        headers["content-type"] = message.content_type
    event = cloud_event(headers, message.body)
    if event is not None:
        return event
    if not message.message_id or _WITHOUT_ID in headers:
        raise NoId("the message has neither the attributes of a CloudEvent nor the property message_id")
    return Named(Key.of(queue, message.message_id))


def stored(queue: str, message: AbstractIncomingMessage) -> Kept:
    """The message for the inbox, with its headers as text."""
    headers = [(name, _bytes(value)) for name, value in (message.headers or {}).items()]
    return Kept(
        message.body, headers, topic=queue, event_type=message.type or "", content_type=message.content_type or ""
    )


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")


def _unlimited(connection: AbstractConnection) -> Dict[str, Any]:
    """The arguments of a quorum queue without a delivery limit, which before RabbitMQ 4 needs no argument."""
    properties = getattr(getattr(connection.transport, "connection", None), "server_properties", {})
    major = str(properties.get("version", "")).partition(".")[0]
    limit = {"x-delivery-limit": -1} if major.isdecimal() and int(major) >= 4 else {}
    return {"x-queue-type": "quorum", **limit}


class QueueConsumer:
    """Processes the messages of a quorum queue: ``await QueueConsumer(ledger, connection, "orders", pay).run(stop)``.

    `handler` is given the claim and the message; it returns and raises what a handler of `AsyncLedger.process` does.
    `queue`: its name; it must exist, or is declared as a quorum queue without a delivery limit. `named`: the name of a
    message by queue and message, or `NoId`; by default see `named`. `dead_letters`: the queue of the copies; by default
    ``QUEUE.dead``. `concurrency`: how many messages are processed at the same time, 1 to 1000; also the prefetch.

    What each outcome becomes: ACK is `ack`; RETRY_LATER is a copy in a delay queue (``QUEUE.later.5s``, …), whose time
    to live brings it back, then `ack`; DEAD_LETTER is a copy, then `ack`. Copies are confirmed by the broker before
    the original is acknowledged: after a crash in between there are two, and the ledger lets one have the effect.

    A message is never given back by `nack`: RabbitMQ counts those, and drops or dead-letters a message of a quorum
    queue that was given back more often than its delivery limit.

    With `STORE` in place of a handler it stores the messages in the inbox.
    """

    def __init__(
        self,
        ledger: AsyncLedger,
        connection: AbstractConnection,
        queue: str,
        handler: Handler,
        *,
        named: Callable[[str, AbstractIncomingMessage], Named] = named,
        dead_letters: Optional[str] = None,
        concurrency: int = 1,
    ) -> None:
        if not 1 <= concurrency <= _CONCURRENCY_MAX:
            raise ValueError(f"concurrency is {concurrency}; 1 to {_CONCURRENCY_MAX} are allowed")
        self._ledger = ledger
        self._connection = connection
        self._queue = queue
        self._handler = handler
        self._named = named
        self._dead_letters = dead_letters or f"{queue}.dead"
        self._concurrency = concurrency
        self._declared: Set[str] = set()
        # One copy at a time: one that no queue takes is returned, and all that is known of it is its message_id.
        self._copying = asyncio.Lock()
        self._tasks: Set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self, stop: Shutdown) -> None:
        """Takes messages until `stop` is requested; returns when those that it has taken are settled.

        Messages that were fetched in advance go back to the queue. Raises what the broker's client raises where the
        connection is lost, and what the program itself has wrong, after the running messages have ended.
        """
        # The broker confirms a message that no queue takes; it is returned before that, which raises here.
        self._channel: AbstractChannel = await self._connection.channel(publisher_confirms=True, on_return_raises=True)
        await self._channel.set_qos(prefetch_count=self._concurrency)
        inbox = await self._existing(self._queue)
        await self._existing(self._dead_letters)
        self._declared.add(self._dead_letters)
        closed = asyncio.ensure_future(self._channel.closed())
        tag = await inbox.consume(self._arrived)
        stopping = asyncio.ensure_future(stop.until_requested())
        try:
            first: Set[asyncio.Future[Any]] = {stopping, self._failed, closed}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not closed.done():
                await inbox.cancel(tag)
        finally:
            stopping.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
        lost = closed.done() and not stop.requested
        closed.cancel()
        if self._failed.done():
            self._failed.result()
        if lost:
            raise ConnectionError("the channel to RabbitMQ was closed")
        self._failed.cancel()
        # What was fetched in advance is not acknowledged: the queue has it again.
        await self._channel.close()

    async def _existing(self, queue: str) -> AbstractQueue:
        """The queue as it is; where there is none, a quorum queue that drops no message after some deliveries."""
        # A refusal closes the channel.
        async with self._connection.channel() as asking:
            try:
                await asking.declare_queue(queue, passive=True)
            except ChannelNotFoundEntity:
                await self._declare(queue, _unlimited(self._connection))
        return await self._channel.get_queue(queue, ensure=False)

    async def _declare(self, queue: str, arguments: Dict[str, Any]) -> AbstractQueue:
        return await self._channel.declare_queue(queue, durable=True, arguments=arguments)

    async def _arrived(self, message: AbstractIncomingMessage) -> None:
        task = asyncio.ensure_future(self._settled(message))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _settled(self, message: AbstractIncomingMessage) -> None:
        outcome = await self._outcome(message)
        try:
            if outcome is not None and outcome.advice is Advice.RETRY_LATER:
                delay = outcome.delay
                await self._until_confirmed(lambda: self._postpone(message, delay))
            elif outcome is None or outcome.advice is Advice.DEAD_LETTER:
                reason = (outcome.reason if outcome else None) or ""
                await self._until_confirmed(lambda: self._dead_letter(message, reason))
            await message.ack()
        except (AMQPError, OSError, asyncio.TimeoutError) as error:
            # It is not acknowledged: RabbitMQ delivers it again, and the ledger knows what became of it.
            _log.warning("a message was not acknowledged: %s", type(error).__name__)

    async def _until_confirmed(self, copy: Callable[[], Awaitable[None]]) -> None:
        """Copies again until the broker has confirmed a copy. Raises where the channel is closed meanwhile.

        The message keeps its place among those that were fetched: a consumer that can copy nothing takes nothing new.
        """
        while True:
            try:
                return await copy()
            except (AMQPError, OSError, asyncio.TimeoutError) as error:
                if self._channel.is_closed:
                    raise
                _log.warning("a copy was not confirmed, and is sent again: %s", type(error).__name__)
                # A queue that was deleted is declared again.
                self._declared.clear()
                await asyncio.sleep(_COPY_AGAIN)

    async def _outcome(self, message: AbstractIncomingMessage) -> Optional[Outcome]:
        """What became of the message; `None` where it has no name."""
        try:
            name = self._named(self._queue, message)
        except NoId as error:
            _log.error("a message of queue %s is dead-lettered: %s", self._queue, error)
            return None
        handler = self._handler
        try:
            if isinstance(handler, Store):
                return await self._ledger.store(name.key, stored(self._queue, message), occurred_at=name.occurred_at)
            return await self._ledger.process(
                name.key,
                lambda claim: handler(claim, message),
                body=message.body,
                occurred_at=name.occurred_at,
            )
        except Closed:
            return Outcome(Advice.RETRY_LATER, delay=1.0, reason="CLOSING")

    async def _postpone(self, message: AbstractIncomingMessage, delay: float) -> None:
        seconds = max((each for each in _DELAYS if each <= delay), default=_DELAYS[0])
        queue = f"{self._queue}.later.{seconds}s"
        if queue not in self._declared:
            back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self._queue}
            await self._declare(queue, {**back, **_CONFIRMED, "x-message-ttl": seconds * 1000})
            self._declared.add(queue)
        await self._copy(message, queue, {})

    async def _dead_letter(self, message: AbstractIncomingMessage, reason: str) -> None:
        if self._dead_letters not in self._declared:
            await self._existing(self._dead_letters)
            self._declared.add(self._dead_letters)
        await self._copy(message, self._dead_letters, {"dead-letter-reason": reason})

    async def _copy(self, message: AbstractIncomingMessage, queue: str, more: Dict[str, str]) -> None:
        without = {} if message.message_id else {_WITHOUT_ID: "true"}
        copy = Message(
            message.body,
            headers={**(message.headers or {}), **without, **more},
            content_type=message.content_type,
            message_id=message.message_id,
            timestamp=message.timestamp,
            delivery_mode=DeliveryMode.PERSISTENT,
        )
        async with self._copying:
            await self._channel.default_exchange.publish(copy, routing_key=queue, mandatory=True, timeout=_CONFIRM)
