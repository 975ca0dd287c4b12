"""Adapters for brokers: each turns a delivery into a key, and an outcome into the broker's own words.

Each module needs the client of its broker, an extra of this package. The core of the package knows no broker.
"""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass
from typing import Any, Mapping, NoReturn, Optional, Union

from ..errors import LedgerError
from ..key import Key

# The bindings of CloudEvents: HTTP and NATS, Kafka, and AMQP with either of its separators. The last one wins.
_PREFIXES = ("ce-", "ce_", "cloudevents:", "cloudevents_")
_STRUCTURED = "application/cloudevents+json"


class Store:
    """The type of `STORE`."""


STORE = Store()
"""In place of a handler: each message is stored in the ledger's inbox, and acknowledged when it is kept.

`Ledger.work` processes it later. A message that the ledger does not take is treated as one that was not processed.
"""


class NoId(LedgerError):
    """A delivery has no id. It is never given one: a redelivery would have another, and a second effect."""


@dataclass(frozen=True)
class Named:
    """The name of a delivery, and when its message was made."""

    key: Key
    occurred_at: Optional[datetime.datetime] = None


def cloud_event(headers: Mapping[str, str], body: Union[bytes, bytearray], replay_run: str = "") -> Optional[Named]:
    """The name of a CloudEvent in binary or structured mode; `None` where the delivery is not a CloudEvent.

    The content-type decides, as the bindings of CloudEvents do: the attributes of a structured event are those of its
    body, and attributes among its headers are not read. An id of a CloudEvent is unique within its source, so both are
    those of the event. Names of headers are compared without regard to case.
    """
    # Sorted: headers that differ by case alone give the same name on each delivery.
    known = [(name.lower(), headers[name]) for name in sorted(headers)]
    kind = dict(known).get("content-type", "")
    if kind.lower().startswith(_STRUCTURED):
        found = _decoded(body)
    else:
        prefixed = ((name, prefix, value) for prefix in _PREFIXES for name, value in known if name.startswith(prefix))
        found = {name[len(prefix) :]: value for name, prefix, value in prefixed}
        if not found:
            return None
    return Named(Key.from_cloud_event(found, replay_run), _instant(found.get("time")))


def _decoded(body: Union[bytes, bytearray]) -> Mapping[str, Any]:
    """The attributes of a structured event."""
    try:
        # Not the bytes: `json` would also take UTF-16, which the packages for other languages do not. Integers are
        # read as floats: one beyond Python's limit of digits would be refused, as in no other language.
        found = json.loads(bytes(body).decode(), parse_constant=_constant, parse_int=float)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        raise NoId(f"the body is not an object of JSON, and the content-type is {_STRUCTURED}")
    return found


def _constant(text: str) -> NoReturn:
    """Refuses NaN and Infinity, which Python reads, but which are not JSON."""
    raise ValueError(f"{text} is not JSON")


def _instant(text: object) -> Optional[datetime.datetime]:
    """The instant of RFC 3339; `None` where there is no instant with a time zone."""
    if not isinstance(text, str):
        return None
    try:
        # Python before 3.11 reads no Z.
        instant = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    except ValueError:
        return None
    return instant if instant.tzinfo else None
