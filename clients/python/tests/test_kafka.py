"""What a consumer of Kafka commits, and in which order a partition is processed."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import List, Optional, Tuple

import pytest
from confluent_kafka import Message

from idempotency_ledger import Advice, Ledger, Outcome
from idempotency_ledger.brokers import NoId
from idempotency_ledger.brokers.kafka import _AHEAD, _ASK, TopicConsumer, _Partition, named


def message(offset: int = 0, headers: Optional[List[Tuple[str, bytes]]] = None, key: Optional[bytes] = None) -> Message:
    return Message(topic="orders", partition=0, offset=offset, value=b"{}", key=key, headers=list(headers or ()))


def taken(*offsets: int) -> _Partition:
    partition = _Partition()
    for offset in offsets:
        partition.take(message(offset), None)
    return partition


def begun(partition: _Partition) -> Message:
    found = partition.begin()
    assert found is not None
    return found


def test_named_takes_the_header_id_or_the_cloud_event() -> None:
    assert named("orders", message(headers=[("id", b"7")])).key.source == "orders"
    assert named("orders", message(headers=[("ce_id", b"7"), ("ce_source", b"shop")])).key.source == "shop"


@pytest.mark.parametrize("headers", [[], [("id", b"")], [("id", b"\xff")], [("id", b"7"), ("id", b"\xff")]])
def test_named_without_a_readable_id_is_refused(headers: List[Tuple[str, bytes]]) -> None:
    with pytest.raises(NoId):
        named("orders", message(headers=headers, key=b"customer-1"))


def test_done_stops_before_the_oldest_open_message() -> None:
    partition = taken(3, 4, 7)
    assert partition.done() == 3
    first, second, third = begun(partition), begun(partition), begun(partition)
    partition.end_of(third, None)
    partition.end_of(second, None)
    assert partition.done() == 3
    partition.end_of(first, None)
    assert partition.done() == 8


def test_postponed_message_blocks_its_partition_until_it_is_done() -> None:
    partition = taken(0, 1)
    late = begun(partition)
    partition.end_of(late, time.monotonic())
    assert partition.blocked
    assert begun(partition) is late
    assert partition.begin() is None
    partition.end_of(late, None)
    assert not partition.blocked
    assert begun(partition).offset() == 1


def test_message_that_is_not_due_does_not_begin() -> None:
    partition = _Partition()
    partition.take(message(0), time.monotonic() + 60)
    assert partition.begin() is None
    assert partition.done() == 0


def test_message_that_was_taken_is_not_taken_again() -> None:
    partition = taken(0, 1)
    partition.end_of(begun(partition), None)
    partition.take(message(0), None)
    assert partition.done() == 1


def test_partition_far_ahead_of_a_hole_takes_nothing_more() -> None:
    partition = taken(0, _AHEAD)
    assert partition.blocked
    assert begun(partition).offset() == 0


def test_nothing_taken_commits_nothing() -> None:
    partition = _Partition()
    assert partition.done() is None
    assert not partition.blocked


@pytest.mark.parametrize("setting", ["enable.auto.commit", "enable.auto.offset.store"])
def test_settings_that_commit_what_is_not_done_are_refused(setting: str) -> None:
    with pytest.raises(ValueError, match=setting):
        TopicConsumer(Ledger("payments"), {setting: True}, "orders", lambda claim, message: None)


def test_messages_behind_a_postponed_one_are_not_ready() -> None:
    partition = taken(0, 1, 2)
    assert partition.ready == 3
    partition.end_of(begun(partition), time.monotonic() + 60)
    assert partition.ready == 0


@pytest.mark.parametrize(("retries", "copies"), [(None, []), ("orders.retry", ["orders.retry"])])
def test_attempt_at_another_member_is_asked_for_each_second(
    monkeypatch: pytest.MonkeyPatch, retries: Optional[str], copies: List[str]
) -> None:
    consumer = TopicConsumer(Ledger("payments"), {}, "orders", lambda claim, message: None, retries=retries)
    elsewhere = Outcome(Advice.RETRY_LATER, delay=60.0, reason="in_progress")
    monkeypatch.setattr(consumer, "_outcome", lambda partition, message: elsewhere)
    copied: List[str] = []
    monkeypatch.setattr(consumer, "_copy", lambda message, topic, more: copied.append(topic))
    monkeypatch.setattr(consumer, "_stop", SimpleNamespace(requested=False), raising=False)
    partition = taken(0)
    first = begun(partition)
    before = time.monotonic()
    consumer._settled(partition, first)
    assert not copied
    assert partition.begin() is None
    assert partition._late[0][0] <= before + _ASK + 1
    # The member may be gone: with a retry topic its lease does not hold up the partition.
    consumer._settled(partition, first)
    assert copied == copies
