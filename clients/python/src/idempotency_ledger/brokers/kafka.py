"""Kafka: a topic whose messages are each processed once. Needs the extra `kafka` (confluent-kafka)."""

from __future__ import annotations

import concurrent.futures
import heapq
import logging
import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Set, Tuple, Union

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from .._claim import Result
from ..errors import Closed, GiveBack
from ..key import Key
from ..ledger import Claim, Ledger
from ..message import Message as Kept
from ..outcome import Advice, Outcome
from ..shutdown import Shutdown
from . import Named, NoId, Store, cloud_event

_log = logging.getLogger("idempotency_ledger")
_POLL = 1.0  # seconds that a poll waits for messages: a request to stop is noticed after it
_POLL_BUSY = 0.1  # seconds, while messages run or wait: then there may be something to begin or to store
_COPY = 10.0  # seconds within which the broker confirms a copy
_AGAIN = 1.0  # seconds until a message is processed again whose copy was not confirmed
# Seconds that a message waits at most whose attempt runs at another member. The ledger names the end of the lease, but
# after a rebalance the former owner of the partition mostly ends or releases the attempt within a second.
_ASK = 1.0
_IN_PROGRESS = "in_progress"  # the ledger's verdict
_AHEAD = 10_000  # offsets that a partition may be ahead of its oldest message that is not done: a crash repeats them
_WAITING = 100  # messages that are taken while all of `concurrency` run; half of them must begin before more are taken
_CONCURRENCY_MAX = 1000
_DUE = "retry-at"  # header of a copy in the retry topic: milliseconds since 1970
_OURS = ("enable.auto.commit", "enable.auto.offset.store", "on_commit")
_FATAL = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError._AUTO_OFFSET_RESET,
)

Handler = Union[Callable[[Claim, Message], Result], Store]


def named(topic: str, message: Message) -> Named:
    """The name of a message: that of its CloudEvent, else the topic and its header ``id``.

    Neither the message's key nor its offset names it: a key chooses a partition, and a producer that repeats itself
    gets another offset. A header that is not UTF-8 is not read: two ids must not become one.
    """
    headers: Dict[str, str] = {}
    for name, value in _headers(message):
        try:
            headers[name] = (value or b"").decode()
        except UnicodeDecodeError:
            headers.pop(name, None)
    event = cloud_event(headers, message.value() or b"")
    if event is not None:
        return event
    if not headers.get("id"):
        raise NoId("the message has neither the attributes of a CloudEvent nor a header `id`")
    return Named(Key.of(topic, headers["id"]))


def stored(message: Message) -> Kept:
    """The message for the inbox, with its place in the topic."""
    return Kept(
        message.value() or b"",
        [(name, value or b"") for name, value in _headers(message)],
        topic=message.topic() or "",
        partition=message.partition(),
        offset=message.offset(),
        message_key=_bytes(message.key()),
    )


class TopicConsumer:
    """Processes the messages of a topic: ``TopicConsumer(ledger, {"bootstrap.servers": …}, "orders", pay).run(stop)``.

    `config`: the settings of librdkafka that the consumer and the producer of copies share. `handler` is given the
    claim and the message; it returns and raises what a handler of `Ledger.process` does. `consumer`: more settings, of
    the consumer alone; the adapter sets ``enable.auto.commit`` and ``enable.auto.offset.store`` itself, and
    ``auto.offset.reset`` is ``earliest`` unless stated otherwise. `group`: the consumer group; by default the ledger's
    consumer. `named`: the name of a message by topic and message, or `NoId`; by default see `named`. `retries`: the
    topic of messages that come later; `None`: their partition waits. `dead_letters`: the topic of the copies; by
    default ``TOPIC.dead``. Both topics must exist, unless brokers create topics. `concurrency`: how many messages are
    processed at the same time, also of one partition, 1 to 1000; with 1 a partition is processed in order.

    What each outcome becomes: ACK is an offset that is committed once all offsets before it are done. RETRY_LATER
    pauses the partition until the message is done: it is processed again, from memory, after the outcome's delay, and
    nothing after it begins meanwhile; or, with `retries`, it is a copy with the header ``retry-at``. DEAD_LETTER is a
    copy. Copies are confirmed by the broker before the original counts as done.

    The consumer polls while handlers run: a handler may take longer than ``max.poll.interval.ms``. Of a partition that
    is revoked, what has not begun is given back, and what runs ends without a commit: the next owner has it again.

    With `STORE` in place of a handler it stores the messages in the inbox.
    """

    def __init__(
        self,
        ledger: Ledger,
        config: Mapping[str, Any],
        topic: str,
        handler: Handler,
        *,
        consumer: Optional[Mapping[str, Any]] = None,
        group: Optional[str] = None,
        named: Callable[[str, Message], Named] = named,
        retries: Optional[str] = None,
        dead_letters: Optional[str] = None,
        concurrency: int = 1,
    ) -> None:
        if not 1 <= concurrency <= _CONCURRENCY_MAX:
            raise ValueError(f"concurrency is {concurrency}; 1 to {_CONCURRENCY_MAX} are allowed")
        for name in _OURS:
            if name in config or name in (consumer or {}):
                raise ValueError(f"{name} is set by the adapter: another value would commit what is not done")
        self._ledger = ledger
        self._topic = topic
        self._handler = handler
        self._named = named
        self._retries = retries
        self._dead_letters = dead_letters or f"{topic}.dead"
        self._concurrency = concurrency
        self._consumer_config = {
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "group.id": group or ledger.consumer,
            **config,
            **(consumer or {}),
            # librdkafka commits what `_store` has stored: at intervals, and when it gives a partition up.
            "enable.auto.commit": True,
            "enable.auto.offset.store": False,
            "on_commit": _committed,
        }
        self._producer_config = {**config, "acks": "all", "delivery.timeout.ms": round(_COPY * 1000)}
        self._partitions: Dict[Tuple[str, int], _Partition] = {}
        self._changed = threading.Condition()
        self._running = 0
        self._crowded = False
        self._failure: Optional[BaseException] = None

    def run(self, stop: Shutdown) -> None:
        """Takes messages until `stop` is requested; returns when those that it has begun are settled and committed.

        Raises what Kafka's client raises where no message can be read, and what the program itself has wrong, after the
        running messages have ended.
        """
        self._stop = stop
        self._producer = Producer(self._producer_config)
        consumer = Consumer(self._consumer_config)
        topics = [self._topic] + ([self._retries] if self._retries else [])
        try:
            with concurrent.futures.ThreadPoolExecutor(self._concurrency) as threads:
                consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
                while not stop.requested and self._failure is None:
                    full = self._full()
                    self._begin(threads)
                    self._steer(consumer)
                    message = consumer.poll(0 if full else self._patience())
                    if message is not None:
                        self._take(message)
        finally:
            self._store(consumer, self._partitions)
            consumer.close()
        if self._failure is not None:
            raise self._failure

    def _assigned(self, _consumer: Consumer, places: List[TopicPartition]) -> None:
        for place in places:
            self._partitions[place.topic, place.partition] = _Partition()

    def _revoked(self, consumer: Consumer, places: List[TopicPartition]) -> None:
        """The partitions still belong to this consumer: it commits what is done, for the next one to begin there."""
        names = [(place.topic, place.partition) for place in places]
        self._store(consumer, names)
        self._lost(consumer, places)

    def _lost(self, consumer: Consumer, places: List[TopicPartition]) -> None:
        """The partitions belong to another consumer by now, or soon will."""
        with self._changed:
            found = [(place, self._partitions.pop((place.topic, place.partition), None)) for place in places]
            for _, partition in found:
                if partition is not None:
                    partition.revoked = True
        # librdkafka keeps a partition paused that is assigned again.
        paused = [place for place, partition in found if partition is not None and partition.paused]
        if paused:
            consumer.resume(paused)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.fatal() or error.code() in _FATAL:
                raise KafkaException(error)
            if error.code() != KafkaError._PARTITION_EOF:
                _log.warning("topic %s cannot be read for now: %s", self._topic, error.name())
            return
        place = (message.topic() or "", message.partition() or 0)
        with self._changed:
            partition = self._partitions.get(place)
            if partition is not None:
                wait = _wait(message) if place[0] == self._retries else 0.0
                partition.take(message, time.monotonic() + wait if wait > 0 else None)

    def _begin(self, threads: concurrent.futures.ThreadPoolExecutor) -> None:
        """Begins what may run now, of the partitions in turn: messages that are due again, and those that wait."""
        with self._changed:
            while self._running < self._concurrency:
                each = ((place, partition.begin()) for place, partition in self._partitions.items())
                place, message = next((found for found in each if found[1] is not None), (None, None))
                if place is None or message is None:
                    return
                self._partitions[place] = partition = self._partitions.pop(place)  # The last one in the next turn.
                self._running += 1
                threads.submit(self._settled, partition, message).add_done_callback(self._ended)

    def _full(self) -> bool:
        """Whether all of `concurrency` still run after a while: then a poll serves the group, and takes a message."""
        with self._changed:
            return not self._changed.wait_for(lambda: self._running < self._concurrency, _POLL)

    def _patience(self) -> float:
        """How long a poll may wait for a message."""
        with self._changed:
            idle = not self._running and not any(each.open for each in self._partitions.values())
        return _POLL if idle else _POLL_BUSY

    def _steer(self, consumer: Consumer) -> None:
        """Pauses the partitions of which nothing may begin, resumes the others, and stores what is done.

        librdkafka drops what it has fetched when a partition is paused, and fetches it again: so pauses are rare.
        """
        pause: List[TopicPartition] = []
        resume: List[TopicPartition] = []
        with self._changed:
            ready = sum(partition.ready for partition in self._partitions.values())
            self._crowded = ready >= _WAITING or (self._crowded and ready > _WAITING // 2)
            for (topic, number), partition in self._partitions.items():
                # A partition is not paused before its first message: then librdkafka is still looking for its offset.
                wanted = partition.blocked or (self._crowded and partition.end is not None)
                if wanted != partition.paused:
                    partition.paused = wanted
                    (pause if wanted else resume).append(TopicPartition(topic, number))
        if pause:
            consumer.pause(pause)
        if resume:
            consumer.resume(resume)
        self._store(consumer, self._partitions)

    def _store(self, consumer: Consumer, names: Any) -> None:
        """Stores how far each partition is done, never past a message that is not; librdkafka commits it."""
        with self._changed:
            known = [(name, self._partitions[name]) for name in names if name in self._partitions]
            moved = [(name, partition, partition.done()) for name, partition in known]
        for (topic, number), partition, offset in moved:
            if offset is None or offset == partition.stored:
                continue
            try:
                consumer.store_offsets(offsets=[TopicPartition(topic, number, offset)])
                partition.stored = offset
            except KafkaException as error:
                _log.warning("an offset was not stored: %s", error.args[0].name())

    def _ended(self, task: concurrent.futures.Future[None]) -> None:
        with self._changed:
            self._running -= 1
            self._failure = self._failure or task.exception()
            self._changed.notify_all()

    def _settled(self, partition: _Partition, message: Message) -> None:
        outcome = self._outcome(partition, message)
        delay = outcome.delay if outcome is not None and outcome.advice is Advice.RETRY_LATER else None
        if partition.revoked or (delay is not None and self._stop.requested):
            return  # It is not committed, and another consumer has it again: the ledger knows what became of it.
        held = self._retries is None
        if delay is not None and outcome is not None and outcome.reason == _IN_PROGRESS:
            with self._changed:
                # Once, where there is a retry topic: the member may be gone, and its lease may be long.
                held = held or not partition.was_late(message)
            delay = min(delay, _ASK) if held else delay
        try:
            if delay is not None and self._retries is not None and not held:
                due = round((time.time() + delay) * 1000)
                self._copy(message, self._retries, {_DUE: str(due)})
                delay = None
            elif outcome is None or outcome.advice is Advice.DEAD_LETTER:
                self._copy(message, self._dead_letters, {"dead-letter-reason": (outcome and outcome.reason) or ""})
        except (KafkaException, BufferError) as error:
            _log.warning("a message of topic %s was not copied, and is kept: %s", self._topic, _text(error))
            delay = _AGAIN
        with self._changed:
            partition.end_of(message, None if delay is None else time.monotonic() + delay)

    def _outcome(self, partition: _Partition, message: Message) -> Optional[Outcome]:
        """What became of the message; `None` where it has no name."""
        try:
            name = self._named(self._topic, message)
        except NoId as error:
            _log.error("a message of topic %s is dead-lettered: %s", self._topic, error)
            return None

        handler = self._handler
        try:
            if isinstance(handler, Store):
                return self._ledger.store(name.key, stored(message), occurred_at=name.occurred_at)
            process = handler

            def handle(claim: Claim) -> Result:
                if partition.revoked or self._stop.requested:
                    raise GiveBack()  # The claim has waited for the ledger, and nothing was begun.
                return process(claim, message)

            return self._ledger.process(name.key, handle, body=message.value() or b"", occurred_at=name.occurred_at)
        except Closed:
            return Outcome(Advice.RETRY_LATER, delay=1.0, reason="CLOSING")

    def _copy(self, message: Message, topic: str, more: Mapping[str, str]) -> None:
        """Raises `KafkaException` where the broker has not confirmed the copy.

        Its timestamp is new: by the original one the retention of the topic might delete it immediately.
        """
        ended = threading.Event()
        failed: List[KafkaError] = []

        def delivered(error: Optional[KafkaError], _: Message) -> None:
            failed.extend([error] if error is not None else [])
            ended.set()

        headers = [(name, value) for name, value in _headers(message) if name != _DUE and name not in more]
        headers += [(name, value.encode("utf-8", "replace")) for name, value in more.items()]
        self._producer.produce(topic, message.value(), message.key(), headers=list(headers), on_delivery=delivered)
        while not ended.is_set():
            self._producer.poll(0.05)
        if failed:
            raise KafkaException(failed[0])


class _Partition:
    """What one assignment of a partition has taken and not done yet. The lock of its consumer guards it."""

    def __init__(self) -> None:
        self.open: Set[int] = set()
        """Offsets that are taken and not done."""
        self.end: Optional[int] = None
        """The offset after the last one that was taken."""
        self.stored: Optional[int] = None
        self.paused = self.revoked = False
        self._waiting: Deque[Message] = deque()
        self._late: List[Tuple[float, int, Message]] = []  # due on the monotonic clock, offset
        self._postponed: Set[int] = set()  # offsets that were late at least once, and are not done

    @property
    def blocked(self) -> bool:
        """Nothing more is taken: a postponed message must be done first, or the oldest one, far behind the others."""
        return bool(self._postponed) or (self.end or 0) - (self.done() or 0) >= _AHEAD

    @property
    def ready(self) -> int:
        """How many messages begin as soon as others end."""
        return 0 if self._postponed else len(self._waiting)

    def done(self) -> Optional[int]:
        """The offset that may be committed: all that are before it are done. `None` if nothing was taken."""
        return min(self.open, default=self.end)

    def take(self, message: Message, due: Optional[float]) -> None:
        offset = message.offset() or 0
        if self.end is not None and offset < self.end:
            return  # It was taken already.
        self.end = offset + 1
        self.open.add(offset)
        if due is None:
            self._waiting.append(message)
        else:
            self._postpone(message, due)

    def begin(self) -> Optional[Message]:
        """The next message that may run; `None` if there is none."""
        if self._late and self._late[0][0] <= time.monotonic():
            return heapq.heappop(self._late)[2]
        if self.ready:
            return self._waiting.popleft()
        return None

    def end_of(self, message: Message, again: Optional[float]) -> None:
        """The message is done, or is due `again` at that instant of the monotonic clock."""
        if again is not None:
            self._postpone(message, again)
            return
        offset = message.offset() or 0
        self.open.discard(offset)
        self._postponed.discard(offset)

    def was_late(self, message: Message) -> bool:
        """Whether the message was postponed before."""
        return message.offset() in self._postponed

    def _postpone(self, message: Message, due: float) -> None:
        offset = message.offset() or 0
        self._postponed.add(offset)
        heapq.heappush(self._late, (due, offset, message))


def _headers(message: Message) -> List[Tuple[str, Optional[bytes]]]:
    found: Any = message.headers() or ()
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in found]


def _bytes(key: Any) -> bytes:
    return key.encode() if isinstance(key, str) else key or b""


def _wait(message: Message) -> float:
    """How many seconds remain until a copy in the retry topic is due; 0 where its header says nothing."""
    due = dict(_headers(message)).get(_DUE) or b""
    return int(due) / 1000 - time.time() if due.isdigit() else 0.0


def _text(error: BaseException) -> str:
    known = error.args[0] if error.args else None
    return known.name() if isinstance(known, KafkaError) else type(error).__name__


def _committed(error: Optional[KafkaError], _places: List[TopicPartition]) -> None:
    """Called by a poll. What was not committed is committed with the next offset, or delivered again."""
    if error is not None and error.code() != KafkaError._NO_OFFSET:
        _log.warning("offsets were not committed: %s", error.name())
