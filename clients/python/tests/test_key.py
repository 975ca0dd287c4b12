"""Keys and fingerprints: what is a fault of the message, and what is one of the program."""

from __future__ import annotations

import hashlib
from typing import Any, Optional

import pytest

from idempotency_ledger import Fingerprint, InvalidField, Key


@pytest.mark.parametrize(
    ("source", "id", "field"),
    [
        ("s", "i", None),
        ("s" * 256, "i" * 512, None),
        ("é" * 128, "é" * 256, None),
        (" ", "A b/c", None),
        ("", "i", "key.source"),
        ("s" * 257, "i", "key.source"),
        ("é" * 129, "i", "key.source"),
        ("s", "", "key.id"),
        ("s", "i" * 513, "key.id"),
        ("s", "a\nb", "key.id"),
        ("s", "a\x7fb", "key.id"),
        ("s", "a\x9fb", "key.id"),
        ("s", "\ud800", "key.id"),
    ],
)
def test_message_at_fault_is_known_by_its_key(source: str, id: str, field: Optional[str]) -> None:
    key = Key.of(source, id)
    assert (key.fault.field if key.fault else None) == field


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ((None, "i"), "key.source"),
        (("s", 7), "key.id"),
        (("s", b"i"), "key.id"),
        (("s", "i", "a b"), "key.replay_run"),
        (("s", "i", "x" * 65), "key.replay_run"),
    ],
)
def test_program_at_fault_is_an_error(arguments: Any, field: str) -> None:
    with pytest.raises(InvalidField) as raised:
        Key.of(*arguments)
    assert raised.value.field == field


class Event:
    """As an event of the second version of the CloudEvents SDK."""

    def get_source(self) -> str:
        return "s"

    def get_id(self) -> str:
        return "i"


@pytest.mark.parametrize(
    ("event", "key"),
    [
        ({"source": "s", "id": "i", "type": "t"}, Key("s", "i")),
        (Event(), Key("s", "i")),
        ({"source": "s"}, Key("s", "")),
        ({"source": "s", "id": 7}, Key("s", "")),
        (None, Key("", "")),
        ("text", Key("", "")),
    ],
)
def test_key_of_a_cloud_event(event: Any, key: Key) -> None:
    assert Key.from_cloud_event(event) == key


def test_fingerprint_is_the_sha256_of_the_raw_body() -> None:
    body = b'{"b" : 1.0}\r\n'
    for raw in (body, bytearray(body), memoryview(body)):
        assert Fingerprint.of(raw).digest == hashlib.sha256(body).digest()


@pytest.mark.parametrize("body", ['{"a": 1}', {"a": 1}, None])
def test_fingerprint_of_what_was_decoded_is_an_error(body: Any) -> None:
    with pytest.raises(InvalidField, match="raw body"):
        Fingerprint.of(body)


@pytest.mark.parametrize("digest", [b"", b"x" * 65, "text"])
def test_fingerprint_has_bounds(digest: Any) -> None:
    with pytest.raises(InvalidField):
        Fingerprint(digest)
