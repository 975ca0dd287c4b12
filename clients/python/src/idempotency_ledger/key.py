"""The name of a message, and the digest of its body."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Union

from .errors import InvalidField

_RUN = re.compile(r"[A-Za-z0-9._-]*")


def checked_text(field: str, text: object, most: int) -> str:
    """The text, if it may be a part of a key: not empty, at most `most` bytes of UTF-8, no control characters."""
    if not isinstance(text, str):
        raise InvalidField(field, f"must be text, not {type(text).__name__}")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidField(field, "is not valid Unicode: it has a lone surrogate") from None
    if not 1 <= size <= most:
        raise InvalidField(field, f"has {size} bytes of UTF-8; 1 to {most} are allowed")
    if any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in text):
        raise InvalidField(field, "has a control character")
    return text


@dataclass(frozen=True)
class Key:
    """The name of a message: `source` and `id` of its producer, the same on each delivery.

    `source`: the producer, 1 to 256 bytes. `id`: unique within its source, 1 to 512 bytes. `replay_run`: the replay
    that the delivery belongs to, at most 64 of ``A-Z a-z 0-9 . _ -``; empty for live deliveries. Keys are compared as
    bytes; control characters are refused.

    A message whose source or id is beyond these bounds is at fault itself: it is not sent to the ledger, and its
    outcome is DEAD_LETTER. Raises `InvalidField` where the program is at fault: a part that is not text, a replay run.
    """

    source: str
    id: str
    replay_run: str = ""
    fault: Optional[InvalidField] = field(default=None, init=False, compare=False, repr=False)
    """Why the ledger would refuse the message; `None` where it is right."""

    def __post_init__(self) -> None:
        for name, part in (("key.source", self.source), ("key.id", self.id)):
            if not isinstance(part, str):
                raise InvalidField(name, f"must be text, not {type(part).__name__}")
        if len(self.replay_run) > 64 or not _RUN.fullmatch(self.replay_run):
            raise InvalidField("key.replay_run", "at most 64 characters of A-Z, a-z, 0-9, '.', '_' and '-' are allowed")
        try:
            checked_text("key.source", self.source, 256)
            checked_text("key.id", self.id, 512)
        except InvalidField as fault:
            object.__setattr__(self, "fault", fault)

    @staticmethod
    def of(source: str, id: str, replay_run: str = "") -> Key:
        """The key of a message by its source and id."""
        return Key(source, id, replay_run)

    @staticmethod
    def from_cloud_event(event: Union[Mapping[str, Any], Any], replay_run: str = "") -> Key:
        """The key of a CloudEvent: a mapping, or an object of the CloudEvents SDK, with `source` and `id`.

        An event without one of them is at fault, as `fault` of the key says: its outcome is DEAD_LETTER.
        """
        values = []
        for name in ("source", "id"):
            getter = getattr(event, f"get_{name}", None)
            try:
                found = getter() if callable(getter) else event[name]
            except (KeyError, TypeError, AttributeError):
                found = None
            values.append(found if isinstance(found, str) else "")
        return Key(values[0], values[1], replay_run)


@dataclass(frozen=True)
class Fingerprint:
    """A digest of the message's body, 1 to 64 bytes, by which another body under the same key is found out."""

    digest: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.digest, bytes) or not 1 <= len(self.digest) <= 64:
            raise InvalidField("fingerprint", "must be 1 to 64 bytes; Fingerprint.of makes it of the raw body")

    @staticmethod
    def of(body: Union[bytes, bytearray, memoryview]) -> Fingerprint:
        """The SHA-256 of the broker's raw body, before any decoding.

        An object that was decoded and serialised again has other bytes in another version or language, so that text
        and objects are refused with `InvalidField`.
        """
        if not isinstance(body, (bytes, bytearray, memoryview)):
            raise InvalidField("fingerprint", f"give the raw body as bytes, not {type(body).__name__}")
        return Fingerprint(hashlib.sha256(body).digest())
