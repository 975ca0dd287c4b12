"""A message of the inbox: what a broker delivered, as the ledger keeps it."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Optional, Sequence, Tuple, Union

from ._proto import ledger_pb2 as pb
from .errors import InvalidField
from .key import Key

PAYLOAD_MAX = 256 * 1024
"""Bytes of the payload of one message."""
HEADERS_MAX, HEADERS_BYTES_MAX, HEADER_NAME_MAX = 64, 16 * 1024, 256
_TEXTS = (("topic", 256), ("event_type", None), ("event_version", 128), ("content_type", 128))


@dataclass(frozen=True)
class Message:
    """A payload of at most 256 KiB, and what came with it. The ledger keeps it as it is, and hands it to a worker.

    `headers`: at most 64 pairs of a name (1 to 256 bytes) and its bytes, at most 16 KiB together. `topic`: the topic,
    queue or stream, at most 256 bytes. `partition` and `offset`, where the broker has them. `message_key`: the broker's
    own key, at most 512 bytes. `event_type`: a label of metrics; `event_version`, `content_type`: at most 128 bytes.

    A message beyond these bounds is at fault itself: it is not sent, and its outcome is DEAD_LETTER. Raises
    `InvalidField` where the program is at fault: a payload that is not bytes, a text that is not text.
    """

    payload: Union[bytes, bytearray, memoryview]
    headers: Sequence[Tuple[str, bytes]] = ()
    topic: str = ""
    partition: Optional[int] = None
    offset: Optional[int] = None
    message_key: bytes = b""
    event_type: str = ""
    event_version: str = ""
    content_type: str = ""
    fault: Optional[InvalidField] = field(default=None, init=False, compare=False, repr=False)
    """Why the ledger would refuse the message; `None` where it is right."""

    def __post_init__(self) -> None:
        for name in ("payload", "message_key"):
            if not isinstance(getattr(self, name), (bytes, bytearray, memoryview)):
                raise InvalidField(f"message.{name}", f"must be bytes, not {type(getattr(self, name)).__name__}")
        for name, _ in _TEXTS:
            if not isinstance(getattr(self, name), str):
                raise InvalidField(f"message.{name}", f"must be text, not {type(getattr(self, name)).__name__}")
        for header in self.headers:
            if not isinstance(header[0], str) or not isinstance(header[1], (bytes, bytearray)):
                raise InvalidField("message.headers", "must be pairs of text and bytes")
        object.__setattr__(self, "fault", self._found_fault())

    def _found_fault(self) -> Optional[InvalidField]:
        try:
            sizes = [(name, len(getattr(self, name).encode()), most) for name, most in _TEXTS]
            names = [len(name.encode()) for name, _ in self.headers]
        except UnicodeEncodeError:
            return InvalidField("message", "has text that is not valid Unicode: a lone surrogate")
        sizes += [("payload", len(bytes(self.payload)), PAYLOAD_MAX), ("message_key", len(self.message_key), 512)]
        for name, size, most in sizes:
            if most is not None and size > most:
                return InvalidField(f"message.{name}", f"has {size} bytes; at most {most} are allowed")
        if len(names) > HEADERS_MAX:
            return InvalidField("message.headers", f"has {len(names)} headers; at most {HEADERS_MAX} are allowed")
        if any(not 1 <= size <= HEADER_NAME_MAX for size in names):
            return InvalidField("message.headers.name", f"must have 1 to {HEADER_NAME_MAX} bytes")
        together = sum(names) + sum(len(value) for _, value in self.headers)
        if together > HEADERS_BYTES_MAX:
            return InvalidField("message.headers", f"has {together} bytes; at most {HEADERS_BYTES_MAX} are allowed")
        for name, number, bits in (("partition", self.partition, 31), ("offset", self.offset, 63)):
            if number is not None and not -(2**bits) <= number < 2**bits:
                return InvalidField(f"message.{name}", f"must be an integer of {bits + 1} bits")
        return None

    def _sent(self) -> pb.Message:
        """The message as the ledger takes it. A message at fault is not sent: it may not be text that can be sent."""
        if self.fault is not None:
            return pb.Message()
        return pb.Message(
            payload=bytes(self.payload),
            headers=[pb.Header(name=name, value=bytes(value)) for name, value in self.headers],
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            message_key=bytes(self.message_key),
            event_type=self.event_type,
            event_version=self.event_version,
            content_type=self.content_type,
        )


@dataclass(frozen=True)
class StoredMessage(Message):
    """A message that the ledger kept, as a worker's handler sees it, with its name and the instant of its Store."""

    key: Key = field(default=Key("-", "-"))
    stored_at: Optional[datetime.datetime] = None


def stored_message(handed: pb.Handed) -> StoredMessage:
    """The message of a handout."""
    kept = handed.message
    return StoredMessage(
        payload=kept.payload,
        headers=tuple((header.name, header.value) for header in kept.headers),
        topic=kept.topic,
        partition=kept.partition if kept.HasField("partition") else None,
        offset=kept.offset if kept.HasField("offset") else None,
        message_key=kept.message_key,
        event_type=kept.event_type,
        event_version=kept.event_version,
        content_type=kept.content_type,
        key=Key.of(handed.key.source, handed.key.id),
        stored_at=handed.stored_at.ToDatetime(datetime.timezone.utc) if handed.HasField("stored_at") else None,
    )
