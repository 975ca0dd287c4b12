"""Copies of messages in RabbitMQ, Redis and SQS: a message is acknowledged after its copy is stored, and not before."""

from __future__ import annotations

import asyncio
from typing import Any, Dict, List, Optional

import pytest
from aio_pika.exceptions import ChannelNotFoundEntity, DeliveryError
from redis.exceptions import ResponseError

from idempotency_ledger import Ledger
from idempotency_ledger.aio import AsyncLedger
from idempotency_ledger.brokers import NoId, rabbitmq
from idempotency_ledger.brokers.redis import StreamConsumer
from idempotency_ledger.brokers.sqs import SqsConsumer
from idempotency_ledger.outcome import Advice, Outcome


class Message:
    """A message of RabbitMQ, which notes its acknowledgement."""

    content_type = None
    timestamp = None

    def __init__(
        self, events: List[str], message_id: Optional[str] = "7", headers: Optional[Dict[str, Any]] = None
    ) -> None:
        self.body, self.message_id, self.headers, self.events = b"{}", message_id, headers, events

    async def ack(self) -> None:
        self.events.append("ack")


class Broker:
    """A connection, a channel and an exchange of RabbitMQ: `queues` exist, and a copy to any other one is returned."""

    transport = None
    is_closed = False

    def __init__(self, *queues: str) -> None:
        self.queues, self.events, self.copies = set(queues), [], []  # type: ignore[var-annotated]
        self.default_exchange = self

    async def __aenter__(self) -> Broker:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def channel(self, **_: Any) -> Broker:
        return self

    async def declare_queue(self, name: str, *, passive: bool = False, **_: Any) -> None:
        if passive and name not in self.queues:
            raise ChannelNotFoundEntity
        if name not in self.queues:
            self.events.append(f"declare {name}")
            self.queues.add(name)

    async def get_queue(self, name: str, *, ensure: bool) -> None:
        pass

    async def publish(self, copy: Any, *, routing_key: str, mandatory: bool, timeout: float) -> None:
        if routing_key not in self.queues:
            self.events.append(f"returned {routing_key}")
            raise DeliveryError(None, None)  # type: ignore[arg-type]
        self.events.append(f"stored {routing_key}")
        self.copies.append(copy)


async def settled(broker: Broker, message: Message, outcome: Outcome, declared: str) -> None:
    consumer = rabbitmq.QueueConsumer(AsyncLedger("c"), broker, "orders", None)  # type: ignore[arg-type]
    consumer._channel = broker  # type: ignore[assignment]
    consumer._declared = {declared}

    async def found(_: Any) -> Outcome:
        return outcome

    consumer._outcome = found  # type: ignore[assignment,method-assign]
    await consumer._settled(message)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcome", "queue"),
    [
        (Outcome(Advice.RETRY_LATER, delay=5.0), "orders.later.5s"),
        (Outcome(Advice.DEAD_LETTER, reason="PARKED"), "orders.dead"),
    ],
)
def test_message_waits_for_a_copy_that_is_stored(monkeypatch: pytest.MonkeyPatch, outcome: Outcome, queue: str) -> None:
    """The queue of the copies was deleted after it was declared."""
    monkeypatch.setattr(rabbitmq, "_COPY_AGAIN", 0.0)
    broker = Broker()
    asyncio.run(settled(broker, Message(broker.events), outcome, queue))
    assert broker.events == [f"returned {queue}", f"declare {queue}", f"stored {queue}", "ack"]


def test_copy_on_a_closed_channel_leaves_the_message() -> None:
    broker = Broker()
    broker.is_closed = True
    asyncio.run(settled(broker, Message(broker.events), Outcome(Advice.DEAD_LETTER), "orders.dead"))
    assert broker.events == ["returned orders.dead"]


def test_copy_of_a_message_without_an_id_has_none() -> None:
    """The library gives an id to what it publishes: the copy would be processed under that one."""
    broker = Broker("orders.dead")
    asyncio.run(settled(broker, Message(broker.events, None), Outcome(Advice.DEAD_LETTER), "orders.dead"))
    copy = Message([], "made by the library", dict(broker.copies[0].headers))
    with pytest.raises(NoId):
        rabbitmq.named("orders", copy)  # type: ignore[arg-type]


class Redis:
    """A Redis whose stream of dead letters takes nothing: its key is of another type."""

    def __init__(self) -> None:
        self.acknowledged: List[bytes] = []

    def xadd(self, stream: str, fields: Any) -> None:
        raise ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")

    def xack(self, stream: str, group: str, entry: bytes) -> None:
        self.acknowledged.append(entry)


def test_entry_of_redis_stays_pending_without_its_copy() -> None:
    redis = Redis()
    with Ledger("c") as ledger:
        consumer = StreamConsumer(ledger, redis, "orders", lambda claim, fields: None)  # type: ignore[arg-type]
        consumer._running[b"1-0"] = True
        consumer._outcome = lambda fields: None  # type: ignore[method-assign]
        consumer._settled(b"1-0", {b"id": b"7"})
    assert redis.acknowledged == []
    assert not consumer._running


def test_dead_letter_of_nats_has_no_header_that_its_stream_acts_on() -> None:
    from types import SimpleNamespace

    from idempotency_ledger.brokers.nats import to_subject

    stored: List[Dict[str, str]] = []

    class Stream:
        async def publish(self, subject: str, data: bytes, *, headers: Dict[str, str]) -> None:
            stored.append(headers)

    place = SimpleNamespace(stream="ORDERS", sequence=SimpleNamespace(stream=3))
    sent = {
        "Nats-Msg-Id": "7",
        "Nats-Rollup": "all",
        "nats-ttl": "1s",
        "Nats-Expected-Stream": "ORDERS",
        "kind": "payment",
    }
    message = SimpleNamespace(metadata=place, headers=sent, data=b"{}")
    asyncio.run(to_subject(Stream(), "dead")(message, None))  # type: ignore[arg-type]
    wanted = {"kind": "payment", "Nats-Msg-Id": "dead/ORDERS/3", "Dead-Letter-Msg-Id": "7", "Dead-Letter-Reason": ""}
    assert stored == [wanted]


class Sqs:
    """A client of SQS, which notes what it is asked."""

    def __init__(self) -> None:
        self.calls: List[str] = []
        self.copy: Dict[str, Any] = {}

    def send_message(self, **copy: Any) -> None:
        self.calls.append("send")
        self.copy = copy

    def delete_message(self, **_: Any) -> None:
        self.calls.append("delete")


def dead_letter(
    message: Dict[str, Any], outcome: Optional[Outcome], queue: str = "https://sqs/1/dead"
) -> Dict[str, Any]:
    client = Sqs()
    with Ledger("c") as ledger:
        consumer = SqsConsumer(ledger, client, "https://sqs/1/orders", lambda claim, found: None, dead_letters=queue)
        consumer._answer({"MessageId": "m", "ReceiptHandle": "r", "Body": "{}", **message}, outcome)
    assert client.calls == ["send", "delete"]
    return client.copy


@pytest.mark.parametrize(
    ("queue", "attributes", "wanted"),
    [
        ("https://sqs/1/dead", {"MessageGroupId": "g"}, (None, None)),
        ("https://sqs/1/dead.fifo", {"MessageGroupId": "g"}, ("g", "m")),
        ("https://sqs/1/dead.fifo", {}, ("dead", "m")),
    ],
)
def test_copy_in_a_fifo_queue_has_a_group_and_is_stored_once(
    queue: str, attributes: Dict[str, str], wanted: Any
) -> None:
    copy = dead_letter({"Attributes": attributes}, None, queue)
    assert (copy.get("MessageGroupId"), copy.get("MessageDeduplicationId")) == wanted


@pytest.mark.parametrize(
    ("count", "outcome", "reason"),
    [
        (0, None, "NO_ID"),
        (9, Outcome(Advice.DEAD_LETTER, reason="PARKED"), "PARKED"),
        (9, Outcome(Advice.DEAD_LETTER), "DEAD_LETTER"),
        (0, Outcome(Advice.DEAD_LETTER, reason="a\x00b\ud800\U0001f600"), "a?b?\U0001f600"),
        (10, Outcome(Advice.DEAD_LETTER, reason="PARKED"), None),
    ],
)
def test_copy_in_sqs_has_a_reason_that_sqs_accepts(
    count: int, outcome: Optional[Outcome], reason: Optional[str]
) -> None:
    sent = {f"a{number}": {"DataType": "String", "StringValue": "x"} for number in range(count)}
    found = dead_letter({"MessageAttributes": sent}, outcome)["MessageAttributes"]
    assert len(found) == count + (reason is not None)
    assert found.get("dead-letter-reason", {}).get("StringValue") == reason
