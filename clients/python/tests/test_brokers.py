"""How a delivery of a broker gets its name."""

from __future__ import annotations

import json
from typing import Dict, Optional, Tuple

import pytest

from idempotency_ledger.brokers import NoId, cloud_event

EVENT = {"specversion": "1.0", "id": "7", "source": "shop", "time": "2026-11-27T10:00:00Z"}
STRUCTURED = "application/cloudevents+json"


@pytest.mark.parametrize(
    ("headers", "body", "key"),
    [
        ({"ce-id": "7", "ce-source": "shop"}, b"", ("shop", "7")),
        ({"Ce-Id": "7", "Ce-Source": "shop"}, b"", ("shop", "7")),
        ({"ce_id": "7", "ce_source": "shop"}, b"", ("shop", "7")),
        ({"cloudEvents:id": "7", "cloudEvents:source": "shop"}, b"", ("shop", "7")),
        ({"cloudEvents_id": "7", "cloudEvents_source": "shop"}, b"", ("shop", "7")),
        ({"content-type": "application/cloudevents+json; charset=utf-8"}, json.dumps(EVENT).encode(), ("shop", "7")),
        ({"content-type": "application/json"}, json.dumps(EVENT).encode(), None),
        ({"id": "7"}, b"", None),
        # A structured event may repeat its attributes as headers: its body counts.
        ({"content-type": STRUCTURED, "ce_id": "8", "ce_source": "other"}, json.dumps(EVENT).encode(), ("shop", "7")),
        # In another format the event cannot be read: its headers count.
        ({"content-type": "application/cloudevents+avro", "ce_id": "7", "ce_source": "shop"}, b"", ("shop", "7")),
        ({"content-type": "application/cloudevents-batch+json"}, b"[]", None),
    ],
)
def test_a_cloud_event_is_found(headers: Dict[str, str], body: bytes, key: Optional[Tuple[str, str]]) -> None:
    found = cloud_event(headers, body)
    assert (found and (found.key.source, found.key.id)) == key


@pytest.mark.parametrize("headers", [{"ce-id": "7"}, {"ce-source": "shop"}])
def test_an_event_without_a_part_of_its_name_is_at_fault(headers: Dict[str, str]) -> None:
    found = cloud_event(headers, b"")
    assert found
    assert found.key.fault


def with_data(data: str) -> bytes:
    return b'{"id": "7", "source": "shop", "data": %s}' % data.encode()


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"{}", json.dumps(EVENT).encode("utf-16"), b'{"id": "\xff"}'),
        b"\xef\xbb\xbf" + json.dumps(EVENT).encode(),  # A byte order mark.
        *(with_data(number) for number in ("NaN", "Infinity", "-Infinity")),
        with_data("[" * 100_000 + "]" * 100_000),
    ],
    ids=lambda body: repr(body[:50]),
)
def test_a_body_that_is_no_event_is_refused(body: bytes) -> None:
    """Also where headers name one: the content-type decides."""
    for headers in ({}, {"ce_id": "7", "ce_source": "shop"}):
        with pytest.raises(NoId):
            cloud_event({"content-type": STRUCTURED, **headers}, body)


def test_data_of_an_event_may_have_any_number() -> None:
    found = cloud_event({"content-type": STRUCTURED}, with_data("1" * 5_000))
    assert found
    assert found.key.id == "7"


@pytest.mark.parametrize(
    ("time", "year"),
    [
        ("2026-11-27T10:00:00Z", 2026),
        ("2026-11-27T10:00:00+01:00", 2026),
        ("2026-11-27T10:00:00", None),
        ("soon", None),
    ],
)
def test_an_instant_needs_a_time_zone(time: str, year: Optional[int]) -> None:
    found = cloud_event({"ce-id": "7", "ce-source": "shop", "ce-time": time}, b"")
    assert found
    assert (found.occurred_at and found.occurred_at.year) == year


def test_a_redis_id_that_is_not_utf_8_is_none() -> None:
    from idempotency_ledger.brokers.redis import named

    assert named("orders", {b"id": b"7"}, b"").key.id == "7"
    # Both would be the same text where each wrong byte becomes a replacement character.
    for wrong in (b"\xff", b"\xfe"):
        with pytest.raises(NoId):
            named("orders", {b"id": wrong}, b"")
