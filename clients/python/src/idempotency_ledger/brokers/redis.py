"""Redis Streams: a consumer group whose entries are each processed once. Needs the extra `redis`."""

from __future__ import annotations

import concurrent.futures
import logging
import os
import socket
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from .._claim import Result
from ..errors import Closed
from ..key import Key
from ..ledger import Claim, Ledger
from ..message import Message
from ..outcome import Advice, Outcome
from ..shutdown import Shutdown
from . import Named, NoId, Store, cloud_event

_log = logging.getLogger("idempotency_ledger")
_BLOCK = 1.0  # seconds that a read waits for entries: a request to stop is noticed after it
_CONCURRENCY_MAX = 1000

Fields = Mapping[bytes, bytes]
Handler = Union[Callable[[Claim, Fields], Result], Store]


def named(stream: str, fields: Fields, body: bytes) -> Named:
    """The name of an entry: that of its CloudEvent (fields ``ce-id``, …), else the stream and its field ``id``.

    The id that Redis gives to an entry names nothing: a producer that repeats itself gets another one. A field that is
    not UTF-8 is not read: two ids must not become one.
    """
    headers: Dict[str, str] = {}
    for name, value in fields.items():
        try:
            headers[name.decode()] = value.decode()
        except UnicodeDecodeError:
            continue
    event = cloud_event(headers, body)
    if event is not None:
        return event
    if not headers.get("id"):
        raise NoId("the entry has neither the attributes of a CloudEvent nor a field `id`")
    return Named(Key.of(stream, headers["id"]))


def stored(stream: str, fields: Fields, body: bytes) -> Message:
    """The message of an entry for the inbox: its field `body`, and the other fields as headers."""
    others = [(name.decode("utf-8", "replace"), value) for name, value in fields.items() if name != body]
    return Message(fields.get(body, b""), others, topic=stream)


class StreamConsumer:
    """Processes the entries of a stream: ``StreamConsumer(ledger, redis, "orders", pay).run(stop)``.

    `redis`: a client without `decode_responses`, since bodies are bytes. `handler` is given the claim and the entry's
    fields; it returns and raises what a handler of `Ledger.process` does. `group`: the consumer group, which is made
    where it is missing; by default the ledger's consumer. `body`: the field of which the fingerprint is made.
    `named`: the name of an entry by stream, fields and body, or `NoId`; by default see `named`. `visibility`: seconds
    after which another consumer takes an entry whose consumer is gone, 1 to 43200; best longer than lease and grace.
    `dead_letters`: the stream of the copies; by default ``STREAM:dead``. `concurrency`: how many entries are processed
    at the same time, 1 to 1000.

    What each outcome becomes: ACK is XACK; RETRY_LATER leaves the entry pending, with an idle time that lets any
    consumer of the group take it after the outcome's delay, or after `visibility` where that is shorter; DEAD_LETTER is
    a copy (XADD) and XACK in one transaction. While an entry is processed its idle time is set back at a third of
    `visibility`.

    With `STORE` in place of a handler it stores the messages in the inbox.
    """

    def __init__(
        self,
        ledger: Ledger,
        redis: Redis,
        stream: str,
        handler: Handler,
        *,
        group: Optional[str] = None,
        body: str = "data",
        named: Callable[[str, Fields, bytes], Named] = named,
        visibility: float = 60.0,
        dead_letters: Optional[str] = None,
        concurrency: int = 1,
    ) -> None:
        if not 1 <= concurrency <= _CONCURRENCY_MAX:
            raise ValueError(f"concurrency is {concurrency}; 1 to {_CONCURRENCY_MAX} are allowed")
        if not 1 <= visibility <= 43200:
            raise ValueError(f"visibility is {visibility} s; 1 to 43200 are allowed")
        self._ledger = ledger
        self._redis: Any = redis
        self._stream = stream
        self._handler = handler
        self._group = group or ledger.consumer
        self._name = f"{socket.gethostname()[:100]}/{os.getpid()}"
        self._body = body.encode()
        self._named = named
        self._visibility = round(visibility * 1000)
        self._dead_letters = dead_letters or f"{stream}:dead"
        self._concurrency = concurrency
        self._cursor = b"0-0"
        self._running: Dict[bytes, bool] = {}  # whether their idle times are set back
        self._lock = threading.Lock()
        self._failure: Optional[BaseException] = None

    def run(self, stop: Shutdown) -> None:
        """Takes entries until `stop` is requested; returns when those that it has taken are settled.

        Raises what Redis' client raises where no entry can be read, and what the program itself has wrong, after the
        running entries have ended.
        """
        try:
            self._redis.xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
        ended = threading.Event()
        extending = threading.Thread(target=self._extended, args=(ended,), daemon=True)
        extending.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(self._concurrency) as threads:
                while not stop.requested and self._failure is None:
                    free = self._concurrency - len(self._running)
                    for entry, fields in self._taken(free) if free else ():
                        with self._lock:
                            self._running[entry] = True
                        threads.submit(self._settled, entry, fields).add_done_callback(self._noted)
                    if not free:
                        time.sleep(0.01)
        finally:
            ended.set()
            extending.join()
        if self._failure is not None:
            raise self._failure

    def _taken(self, most: int) -> List[Tuple[bytes, Fields]]:
        """Entries whose consumer is gone or that are due again, else new ones."""
        self._cursor, again, *_ = self._redis.xautoclaim(
            self._stream, self._group, self._name, self._visibility, start_id=self._cursor, count=most
        )
        if again:
            return [(entry, fields) for entry, fields in again if fields and entry not in self._running]
        found = self._redis.xreadgroup(
            self._group, self._name, {self._stream: ">"}, count=most, block=round(_BLOCK * 1000)
        )
        return [(entry, fields) for _, entries in found or () for entry, fields in entries]

    def _noted(self, done: concurrent.futures.Future[None]) -> None:
        self._failure = self._failure or done.exception()

    def _settled(self, entry: bytes, fields: Fields) -> None:
        try:
            self._answer(entry, fields, self._outcome(fields))
        except RedisError as error:
            # The entry stays pending, and the ledger knows what became of it.
            _log.warning("an entry was not acknowledged: %s", type(error).__name__)
        finally:
            with self._lock:
                del self._running[entry]

    def _outcome(self, fields: Fields) -> Optional[Outcome]:
        """What became of the entry; `None` where it has no name."""
        body = fields.get(self._body, b"")
        try:
            name = self._named(self._stream, fields, body)
        except NoId as error:
            _log.error("an entry of stream %s is dead-lettered: %s", self._stream, error)
            return None
        handler = self._handler
        try:
            if isinstance(handler, Store):
                return self._ledger.store(
                    name.key, stored(self._stream, fields, self._body), occurred_at=name.occurred_at
                )
            return self._ledger.process(
                name.key, lambda claim: handler(claim, fields), body=body, occurred_at=name.occurred_at
            )
        except Closed:
            return Outcome(Advice.RETRY_LATER, delay=1.0, reason="CLOSING")

    def _answer(self, entry: bytes, fields: Fields, outcome: Optional[Outcome]) -> None:
        if outcome is not None and outcome.advice is Advice.RETRY_LATER:
            idle = max(0, self._visibility - round(outcome.delay * 1000))
            with self._lock:  # From here on its idle time is that of the outcome.
                self._running[entry] = False
                self._idle([entry], idle)
        elif outcome is not None and outcome.advice is Advice.ACK:
            self._redis.xack(self._stream, self._group, entry)
        else:
            reason = (outcome.reason if outcome else None) or ""
            # The copy first: in one transaction the entry would be acknowledged though the copy was refused.
            copy = {**fields, b"dead-letter-reason": reason.encode("utf-8", "replace")}
            self._redis.xadd(self._dead_letters, copy)
            self._redis.xack(self._stream, self._group, entry)

    def _idle(self, entries: List[bytes], milliseconds: int) -> None:
        """Sets how long they have been idle; an entry that is not pending any more stays so."""
        self._redis.xclaim(
            self._stream, self._group, self._name, min_idle_time=0, message_ids=entries, idle=milliseconds, justid=True
        )

    def _extended(self, ended: threading.Event) -> None:
        """Keeps other consumers from taking entries that are processed here."""
        while not ended.wait(self._visibility / 3000):
            try:
                # Under the lock: an entry that is postponed meanwhile would wait for the whole visibility.
                with self._lock:
                    entries = [entry for entry, kept in self._running.items() if kept]
                    if entries:
                        self._idle(entries, 0)
            except RedisError as error:
                _log.warning("entries were not kept: %s", type(error).__name__)
