"""Amazon SQS and its kind: a queue whose messages are each processed once. Needs the extra `sqs` (boto3)."""

from __future__ import annotations

import concurrent.futures
import logging
import re
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

from .._claim import Result
from ..errors import Closed
from ..key import Key
from ..ledger import Claim, Ledger
from ..message import Message
from ..outcome import Advice, Outcome
from ..shutdown import Shutdown
from . import Named, NoId, Store, cloud_event

_log = logging.getLogger("idempotency_ledger")
_RECEIVE = 1  # seconds that a call waits for messages: a request to stop is noticed after it
_BATCH = 10  # messages that a call may receive: SQS allows no more
_CONCURRENCY_MAX = 1000
_VISIBILITY_MAX = 43200  # seconds: SQS allows no more
_ATTRIBUTES_MAX = 10  # attributes that a message may have
_REASON = "dead-letter-reason"
# SQS refuses a text with other characters than these of XML 1.0.
_REFUSED = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Delivered = Mapping[str, Any]
Handler = Union[Callable[[Claim, Delivered], Result], Store]


def named(queue: str, message: Delivered) -> Named:
    """The name of a message: that of its CloudEvent, its message attribute ``id``, or its `MessageDeduplicationId`.

    `MessageId` names nothing: a producer that repeats itself gets another one.
    """
    attributes = message.get("MessageAttributes") or {}
    headers = {name: str(value.get("StringValue", "")) for name, value in attributes.items()}
    event = cloud_event(headers, message["Body"].encode())
    if event is not None:
        return event
    id = headers.get("id") or (message.get("Attributes") or {}).get("MessageDeduplicationId")
    if not id:
        raise NoId("the message has neither the attributes of a CloudEvent, nor one called id, nor a deduplication id")
    return Named(Key.of(queue.rsplit("/", 1)[-1], id))


def stored(queue: str, message: Delivered) -> Message:
    """The message for the inbox: its body, and its attributes as headers."""
    attributes = (message.get("MessageAttributes") or {}).items()
    headers = [
        (name, value["BinaryValue"] if "BinaryValue" in value else str(value.get("StringValue", "")).encode())
        for name, value in attributes
    ]
    return Message(message["Body"].encode(), headers, topic=queue.rsplit("/", 1)[-1])


class SqsConsumer:
    """Processes the messages of a queue: ``SqsConsumer(ledger, boto3.client("sqs"), url, pay).run(stop)``.

    `handler` is given the claim and the message as boto3 has it; it returns and raises what a handler of
    `Ledger.process` does. `queue`: its URL. `named`: the name of a message by queue and message, or `NoId`; by default
    see `named`. `visibility`: seconds after which SQS delivers a message again whose consumer is gone, 1 to 43200; best
    longer than lease and grace. `dead_letters`: the URL of the queue of the copies; `None`: the message is left to the
    redrive policy of the queue, which then must have one. In a FIFO queue of dead letters a copy has the group of its
    message, or ``dead``. `concurrency`: how many messages are processed at the same time, 1 to 1000.

    What each outcome becomes: ACK deletes the message; RETRY_LATER changes its visibility to the outcome's delay;
    DEAD_LETTER is a copy, then the message is deleted. While a message is processed its visibility is extended at a
    third of it. In a FIFO queue a message that is processed later holds up those of its group, as SQS means it.

    With `STORE` in place of a handler it stores the messages in the inbox.
    """

    def __init__(
        self,
        ledger: Ledger,
        client: Any,
        queue: str,
        handler: Handler,
        *,
        named: Callable[[str, Delivered], Named] = named,
        visibility: int = 60,
        dead_letters: Optional[str] = None,
        concurrency: int = 1,
    ) -> None:
        if not 1 <= concurrency <= _CONCURRENCY_MAX:
            raise ValueError(f"concurrency is {concurrency}; 1 to {_CONCURRENCY_MAX} are allowed")
        if not 1 <= visibility <= _VISIBILITY_MAX:
            raise ValueError(f"visibility is {visibility} s; 1 to {_VISIBILITY_MAX} are allowed")
        self._ledger = ledger
        self._client = client
        self._queue = queue
        self._handler = handler
        self._named = named
        self._visibility = visibility
        self._dead_letters = dead_letters
        self._concurrency = concurrency
        self._running: Dict[str, None] = {}
        self._lock = threading.Lock()
        self._failure: Optional[BaseException] = None

    def run(self, stop: Shutdown) -> None:
        """Takes messages until `stop` is requested; returns when those that it has taken are settled.

        Raises what boto3 raises where no message can be received, and what the program itself has wrong, after the
        running messages have ended.
        """
        ended = threading.Event()
        extending = threading.Thread(target=self._extended, args=(ended,), daemon=True)
        extending.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(self._concurrency) as threads:
                while not stop.requested and self._failure is None:
                    free = self._concurrency - len(self._running)
                    for message in self._taken(free) if free else ():
                        with self._lock:
                            self._running[message["ReceiptHandle"]] = None
                        threads.submit(self._settled, message).add_done_callback(self._noted)
                    if not free:
                        time.sleep(0.01)
        finally:
            ended.set()
            extending.join()
        if self._failure is not None:
            raise self._failure

    def _taken(self, most: int) -> List[Delivered]:
        answer = self._client.receive_message(
            QueueUrl=self._queue,
            MaxNumberOfMessages=min(most, _BATCH),
            WaitTimeSeconds=_RECEIVE,
            VisibilityTimeout=self._visibility,
            MessageAttributeNames=["All"],
            AttributeNames=["All"],
        )
        return list(answer.get("Messages", ()))

    def _noted(self, done: concurrent.futures.Future[None]) -> None:
        self._failure = self._failure or done.exception()

    def _settled(self, message: Delivered) -> None:
        receipt = message["ReceiptHandle"]
        try:
            outcome = self._outcome(message)
            with self._lock:  # From here on its visibility is that of the outcome.
                del self._running[receipt]
            self._answer(message, outcome)
        except (BotoCoreError, ClientError) as error:
            # SQS delivers it again, and the ledger knows what became of it.
            _log.warning("a message was not acknowledged: %s", type(error).__name__)
        finally:
            with self._lock:
                self._running.pop(receipt, None)

    def _outcome(self, message: Delivered) -> Optional[Outcome]:
        """What became of the message; `None` where it has no name."""
        try:
            name = self._named(self._queue, message)
        except NoId as error:
            _log.error("a message of queue %s is dead-lettered: %s", self._queue, error)
            return None
        handler = self._handler
        try:
            if isinstance(handler, Store):
                return self._ledger.store(name.key, stored(self._queue, message), occurred_at=name.occurred_at)
            return self._ledger.process(
                name.key,
                lambda claim: handler(claim, message),
                body=message["Body"].encode(),
                occurred_at=name.occurred_at,
            )
        except Closed:
            return Outcome(Advice.RETRY_LATER, delay=1.0, reason="CLOSING")

    def _answer(self, message: Delivered, outcome: Optional[Outcome]) -> None:
        receipt = message["ReceiptHandle"]
        if outcome is not None and outcome.advice is Advice.RETRY_LATER:
            self._visible_after(receipt, min(_VISIBILITY_MAX, -(-outcome.delay // 1)))
            return
        if outcome is None or outcome.advice is Advice.DEAD_LETTER:
            if self._dead_letters is None:
                return  # SQS counts its deliveries, and moves it by the queue's redrive policy.
            reason = "NO_ID" if outcome is None else outcome.reason or "DEAD_LETTER"
            self._client.send_message(QueueUrl=self._dead_letters, **_copy(self._dead_letters, message, reason))
        self._client.delete_message(QueueUrl=self._queue, ReceiptHandle=receipt)

    def _visible_after(self, receipt: str, seconds: float) -> None:
        self._client.change_message_visibility(
            QueueUrl=self._queue, ReceiptHandle=receipt, VisibilityTimeout=int(seconds)
        )

    def _extended(self, ended: threading.Event) -> None:
        """Keeps SQS from delivering messages again that are processed here."""
        while not ended.wait(self._visibility / 3):
            with self._lock:
                receipts = list(self._running)
            for receipt in receipts:
                try:
                    # Under the lock: a message that is postponed meanwhile would wait for the whole visibility.
                    with self._lock:
                        if receipt in self._running:
                            self._visible_after(receipt, self._visibility)
                except (BotoCoreError, ClientError) as error:
                    _log.warning("a message was not kept: %s", type(error).__name__)


def _copy(queue: str, message: Delivered, reason: str) -> Dict[str, Any]:
    """What a queue of dead letters is sent. A message with ten attributes has no room for the reason.

    A FIFO queue stores the copy of a message once, in the order of its group; it refuses a copy without a group.
    """
    attributes = dict(message.get("MessageAttributes") or {})
    if len(attributes) < _ATTRIBUTES_MAX or _REASON in attributes:
        attributes[_REASON] = {"DataType": "String", "StringValue": _REFUSED.sub("?", reason)}
    copy = {"MessageBody": message["Body"], "MessageAttributes": attributes}
    if queue.endswith(".fifo"):
        group = (message.get("Attributes") or {}).get("MessageGroupId")
        copy.update(MessageGroupId=group or "dead", MessageDeduplicationId=message["MessageId"])
    return copy
