"""The inbox: what is refused before it is sent, what a worker asks for, and what becomes of a handout."""

from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional

import pytest
from confluent_kafka import Message as KafkaMessage
from world import HOP, Play, granted, ours

from idempotency_ledger import Advice, Fingerprint, InvalidField, Key, Ledger, Message, Outcome, StoredMessage
from idempotency_ledger._core.delivery import admitted
from idempotency_ledger._core.holds import Hold
from idempotency_ledger._core.inbox import Handout, Item, WorkQueue, store, take
from idempotency_ledger._core.steps import duration
from idempotency_ledger._options import Options
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger._work import Worker
from idempotency_ledger.brokers import STORE
from idempotency_ledger.brokers.kafka import TopicConsumer
from idempotency_ledger.brokers.redis import StreamConsumer
from idempotency_ledger.brokers.sqs import SqsConsumer
from idempotency_ledger.message import stored_message

ACK, RETRY, DEAD = Advice.ACK, Advice.RETRY_LATER, Advice.DEAD_LETTER


def options(**more: Any) -> Options:
    return Options("c", Ledger("c")._options.connection, **more)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"payload": b"x" * (256 * 1024 + 1)}, "message.payload"),
        ({"topic": "t" * 257}, "message.topic"),
        ({"message_key": b"k" * 513}, "message.message_key"),
        ({"event_version": "v" * 129}, "message.event_version"),
        ({"content_type": "c" * 129}, "message.content_type"),
        ({"headers": [("h", b"")] * 65}, "message.headers"),
        ({"headers": [("", b"v")]}, "message.headers.name"),
        ({"headers": [("h" * 257, b"v")]}, "message.headers.name"),
        ({"headers": [("h", b"v" * 16 * 1024)]}, "message.headers"),
        ({"partition": 2**31}, "message.partition"),
        ({"offset": -(2**63) - 1}, "message.offset"),
        ({"topic": "\ud800"}, "message"),
    ],
)
def test_message_beyond_a_bound_is_dead_lettered_and_not_sent(fields: Dict[str, Any], field: str) -> None:
    message = Message(**{"payload": b"", **fields})
    play = Play()
    request = options().store_request(Key.of("s", "i"), message, None, None)
    outcome = play.run(store(play.world, request, message.fault))
    assert (outcome.advice, outcome.reason, play.sent) == (DEAD, "INVALID_FIELD", [])
    assert isinstance(outcome.error, InvalidField)
    assert outcome.error.field == field


@pytest.mark.parametrize(
    "fields", [{"payload": "text"}, {"topic": b"t"}, {"message_key": "k"}, {"headers": [("h", 1)]}]
)
def test_message_of_wrong_types_raises(fields: Dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        Message(**{"payload": b"", **fields})


def test_store_request_has_the_fingerprint_of_the_payload() -> None:
    request = options().store_request(Key.of("s", "i"), Message(b"body"), None, None)
    assert request.fingerprint == Fingerprint.of(b"body").digest
    other = options().store_request(Key.of("s", "i"), Message(b"body"), Fingerprint(b"f"), None)
    assert other.fingerprint == b"f"
    with pytest.raises(InvalidField, match="replay_run"):
        options().store_request(Key("s", "i", "run"), Message(b"body"), None, None)


@pytest.mark.parametrize(
    ("answer", "advice", "reason", "replayed"),
    [
        (pb.StoreResponse(advice=pb.ADVICE_ACK, stored=pb.Stored()), ACK, None, False),
        (pb.StoreResponse(advice=pb.ADVICE_ACK, already_stored=pb.AlreadyStored()), ACK, "already_stored", True),
        (pb.StoreResponse(advice=pb.ADVICE_ACK, completed=pb.StoreCompleted()), ACK, "completed", True),
        (pb.StoreResponse(advice=pb.ADVICE_DEAD_LETTER, failed=pb.Failed()), DEAD, "failed", False),
        (
            pb.StoreResponse(advice=pb.ADVICE_DEAD_LETTER, outside_window=pb.OutsideWindow()),
            DEAD,
            "outside_window",
            False,
        ),
        # Rule 8: what this version does not know.
        (pb.StoreResponse(advice=pb.ADVICE_ACK), RETRY, "UNKNOWN_VERDICT", False),
        (pb.StoreResponse(advice=99, stored=pb.Stored()), RETRY, "UNKNOWN_VERDICT", False),  # type: ignore[arg-type]
        (ours("INBOX_OFF", code="FAILED_PRECONDITION"), RETRY, "INBOX_OFF", False),
        (ours("BACKLOG_FULL", after=60, code="RESOURCE_EXHAUSTED"), RETRY, "BACKLOG_FULL", False),
    ],
)
def test_store_verdict_becomes_an_outcome(answer: Any, advice: Advice, reason: Optional[str], replayed: bool) -> None:
    play = Play(answer)
    outcome = play.run(store(play.world, pb.StoreRequest(), None))
    assert (outcome.advice, outcome.replayed) == (advice, replayed)
    assert outcome.reason == reason or (reason == "UNKNOWN_VERDICT" and outcome.reason == "stored")
    assert (outcome.delay > 0) == (advice is RETRY)


def handed(id: str, lease: float = 30.0, **fields: Any) -> pb.Handed:
    key = pb.EntryKey(consumer="c", source="s", id=id)
    acquired = granted(lease, **fields)
    return pb.Handed(key=key, acquired=acquired, message=pb.Message(payload=b"p", partition=3))


def taken(play: Play, request: pb.ClaimNextRequest) -> Handout:
    found = play.run(take(play.world, request))
    assert isinstance(found, Handout)
    return found


def test_lost_answer_of_claim_next_is_asked_for_again_with_its_claim_id() -> None:
    play = Play(*[HOP] * 100)
    handout = taken(play, options().next_request(3, 5))
    assert handout.again
    assert len({request.claim_id for _, request, _, _ in play.sent}) == 1
    assert not taken(Play(ours("CLAIM_CLOSED")), options().next_request(3, 5)).again
    assert options().next_request(3, 5).claim_id != options().next_request(3, 5).claim_id


@pytest.mark.parametrize(
    ("takes", "begins"), [pytest.param(0.0, True, id="in_time"), pytest.param(3.0, False, id="longer_than_the_lease")]
)
def test_handout_after_a_wait_beyond_its_lease_is_renewed_message_by_message(takes: float, begins: bool) -> None:
    """`take` sends no Renew: each message is renewed by its own handler, none waits for those of the others."""
    play = Play(pb.ClaimNextResponse(messages=[handed("1", 2.0), handed("2", 2.0)]), takes=3.0)
    messages = taken(play, options().next_request(2, 5)).messages
    assert play.methods == ["ClaimNext"]
    play.takes = takes
    play.script = [pb.RenewResponse(lease=duration(2)), *([] if begins else [pb.ReleaseResponse()])] * 2
    for hold, _ in messages:
        assert hold.lost is None
        assert hold.over() == "LEASE_OVER"
        found = play.run(admitted(hold, lambda: False))
        assert (found is hold) == begins
    assert play.methods[:2] == ["ClaimNext", "Renew"]


def items(play: Play, *ids: str, attempt: int = 1, effect_unknown: bool = False, lease: float = 30.0) -> List[Item]:
    found = []
    for id in ids:
        claim = pb.ClaimRequest(key=pb.EntryKey(consumer="c", source="s", id=id))
        acquired = granted(lease, effect_unknown=effect_unknown)
        acquired.attempt = attempt
        found.append(Item(Hold(play.world, claim, acquired, play.now), None))
    return found


@pytest.mark.parametrize(("took", "most"), [(None, 4), (0.001, 40), (5.0, 12), (15.0, 4), (60.0, 4)])
def test_room_is_sized_by_lease_and_handler_time(took: Optional[float], most: int) -> None:
    queue = WorkQueue(4, 30.0)
    if took is not None:
        queue.add(items(Play(), "1"))
        item = queue.next()
        assert item
        queue.ended(item, took)
    assert queue.room() == most


def test_next_runs_no_message_twice_and_no_more_than_the_concurrency() -> None:
    queue = WorkQueue(2, 30.0)
    queue.add(items(Play(), "1", "1", "2", "3"))
    first, second = queue.next(), queue.next()
    assert first
    assert second
    assert (first.key[1], second.key[1]) == ("1", "2")
    assert queue.next() is None
    queue.ended(second, 1.0)
    third = queue.next()
    assert third
    assert third.key[1] == "3"
    queue.ended(first, 1.0)
    again = queue.next()
    assert again
    assert again.key[1] == "1"
    assert not queue.drain()


def test_suspect_runs_alone() -> None:
    queue = WorkQueue(4, 30.0)
    queue.add(items(Play(), "1", "2"))
    running = queue.next()
    assert running
    queue.add(items(Play(), "3", attempt=3, effect_unknown=True))
    second = queue.next()
    assert second
    assert queue.room() == 0
    assert queue.next() is None
    queue.ended(running, 1.0)
    assert queue.next() is None
    queue.ended(second, 1.0)
    suspect = queue.next()
    assert suspect
    assert suspect.alone
    queue.add(items(Play(), "4", "5"))
    assert (queue.next(), queue.room()) == (None, 0)
    queue.ended(suspect, 1.0)
    assert queue.next()


def test_suspect_whose_claim_is_lost_holds_up_no_other() -> None:
    queue = WorkQueue(4, 30.0)
    queue.add(items(Play(), "1"))
    assert queue.next()
    queue.add(items(Play(), "2", attempt=3, effect_unknown=True))
    assert (queue.next(), queue.room()) == (None, 0)
    queue.waiting[0].hold.lost = "LEASE_LOST"
    assert queue.room() == 2
    queue.add(items(Play(), "3"))
    lost, third = queue.next(), queue.next()
    assert lost
    assert third
    assert (lost.key[1], third.key[1]) == ("2", "3")


def test_drain_and_close_take_an_endless_grace() -> None:
    worker = Worker(Ledger("c"), lambda claim, message: None, None, 1, float("inf"))
    worker._queue.add(items(Play(), "1"))
    item = worker._queue.next()
    assert item
    assert worker._state.inflight.enter()

    def end() -> None:
        with worker._changed:
            worker._queue.ended(item, 1.0)
            worker._changed.notify_all()
        worker._state.inflight.leave()

    timer = threading.Timer(0.1, end)
    timer.start()
    assert worker._drain()
    assert worker._state.inflight.close(float("inf"))
    timer.join()


def test_worker_ends_its_threads_where_one_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: List[threading.Thread] = []
    start = threading.Thread.start

    def limited(thread: threading.Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start"):
        Worker(Ledger("c"), lambda claim, message: None, None, 2, 1.0).run()
    started[0].join(5.0)
    assert not started[0].is_alive()


def test_drain_ends_all_renewals_where_a_release_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(Ledger("c"), lambda claim, message: None, None, 1, 1.0)
    waiting = items(Play(), "1", "2")
    for number, item in enumerate(waiting):
        item.renewing = number
    worker._queue.add(waiting)
    dropped: List[int] = []
    monkeypatch.setattr(worker._state.renewer, "drop", dropped.append)

    def broken(_: Any) -> None:
        assert worker._over
        raise ValueError("a channel that is closed")

    monkeypatch.setattr(worker._ledger, "_run", broken)
    assert worker._drain()
    assert dropped == [0, 1]
    assert isinstance(worker._failure, ValueError)


def test_stored_message_has_what_was_stored() -> None:
    found = stored_message(handed("7"))
    assert isinstance(found, StoredMessage)
    assert (found.key, found.payload, found.partition, found.offset) == (Key.of("s", "7"), b"p", 3, None)


class Kept(Ledger):
    """Keeps what a receiver stores."""

    def store(self, key: Key, message: Message, **_: Any) -> Outcome:
        self.found = (key, message)
        return Outcome(RETRY, delay=7.0, reason="BACKLOG_FULL")


def test_receivers_store_what_the_broker_delivered() -> None:
    ledger = Kept("c")
    redis = StreamConsumer(ledger, object(), "orders", STORE)  # type: ignore[arg-type]
    outcome = redis._outcome({b"id": b"7", b"data": b"body", b"kind": b"paid"})
    assert outcome
    assert (outcome.advice, outcome.delay) == (RETRY, 7.0)
    assert ledger.found == (
        Key.of("orders", "7"),
        Message(b"body", [(("id"), b"7"), ("kind", b"paid")], topic="orders"),
    )
    sqs = SqsConsumer(ledger, object(), "https://q/orders", STORE)
    sqs._outcome({"Body": "body", "MessageAttributes": {"id": {"StringValue": "7", "DataType": "String"}}})
    assert ledger.found == (Key.of("orders", "7"), Message(b"body", [("id", b"7")], topic="orders"))
    kafka = TopicConsumer(ledger, {}, "orders", STORE)
    delivered = KafkaMessage(topic="orders", partition=2, offset=9, value=b"body", key=b"k", headers=[("id", b"7")])
    kafka._outcome(None, delivered)  # type: ignore[arg-type]
    message = Message(b"body", [("id", b"7")], topic="orders", partition=2, offset=9, message_key=b"k")
    assert ledger.found == (Key.of("orders", "7"), message)
