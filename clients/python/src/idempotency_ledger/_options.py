"""What both clients are given, checked before anything is sent."""

from __future__ import annotations

import datetime
import os
import random
import socket
import time
import uuid
import warnings
from dataclasses import dataclass, field
from typing import Optional, Type, Union

from ._connection import Connection
from ._core.steps import World, duration
from ._proto import ledger_pb2 as pb
from .errors import Doubtful, InvalidField, Park, Retry, Steer
from .key import Fingerprint, Key, checked_text
from .message import Message

Body = Union[bytes, bytearray, memoryview]


@dataclass(frozen=True)
class Delivery:
    """One delivery of a message, as the caller names it."""

    key: Key
    body: Optional[Body] = None
    fingerprint: Optional[Fingerprint] = None
    occurred_at: Optional[datetime.datetime] = None
    event_type: str = ""
    wait: float = 0.0


@dataclass(frozen=True)
class Options:
    """The options of `Ledger` and `AsyncLedger`, where they are explained."""

    consumer: str
    connection: Connection
    lease: Optional[float] = None
    owner: Optional[str] = None
    unexpected: Type[Steer] = Park
    repeat_announced: bool = False
    handler_budget: Optional[float] = None
    ack_wait: Optional[float] = None
    world: World = field(default_factory=lambda: World(time.monotonic, random.random))

    def __post_init__(self) -> None:
        checked_text("key.consumer", self.consumer, 128)
        if self.owner is not None:
            checked_text("owner", self.owner, 128)
        if self.lease is not None and not 1 <= self.lease <= 86_400:
            raise InvalidField("lease", f"{self.lease} s is not within 1 s and a day; the policy may bound it further")
        if self.unexpected not in (Park, Retry, Doubtful):
            raise InvalidField("unexpected", "must be Park, Retry or Doubtful")
        if self.handler_budget is not None and self.ack_wait is not None and self.handler_budget > self.ack_wait:
            warnings.warn(
                f"{self.consumer}: a handler may take {self.handler_budget} s, and the broker waits {self.ack_wait} s"
                " for an acknowledgement: it will deliver messages again whose handler still runs. Raise its wait.",
                stacklevel=4,
            )

    def request(self, delivery: Delivery) -> pb.ClaimRequest:
        """The Claim of a delivery: with a new claim_id, so that it is never taken for another delivery (rule 1)."""
        key = self._key(delivery.key)
        if delivery.body is not None and delivery.fingerprint is not None:
            raise InvalidField("fingerprint", "give the raw body or its fingerprint, not both")
        if not 0 <= delivery.wait <= 3600:
            raise InvalidField("wait", f"{delivery.wait} s is not within 0 s and an hour; the server bounds it further")
        fingerprint = Fingerprint.of(delivery.body) if delivery.body is not None else delivery.fingerprint
        request = pb.ClaimRequest(
            key=key,
            claim_id=str(uuid.uuid4()),
            owner=self._owner(),
            fingerprint=fingerprint.digest if fingerprint else b"",
            event_type=delivery.event_type,
        )
        if self.lease is not None:
            request.lease.CopyFrom(duration(self.lease))
        if delivery.wait:
            request.wait.CopyFrom(duration(delivery.wait))
        _dated(request, delivery.occurred_at)
        return request

    def store_request(
        self,
        key: Key,
        message: Message,
        fingerprint: Optional[Fingerprint],
        occurred_at: Optional[datetime.datetime],
    ) -> pb.StoreRequest:
        """The Store of a message; its fingerprint is that of the payload unless another one is given (rule 20)."""
        if not isinstance(message, Message):
            raise InvalidField("message", f"must be a Message, not {type(message).__name__}")
        named = self._key(key)
        if key.replay_run:
            raise InvalidField("key.replay_run", "must be empty: a message of a replay run is not stored")
        digest = (fingerprint or Fingerprint.of(message.payload)).digest
        request = pb.StoreRequest(key=named, message=message._sent(), fingerprint=digest)
        _dated(request, occurred_at)
        return request

    def next_request(self, most: int, wait: float) -> pb.ClaimNextRequest:
        """A ClaimNext with a new claim_id (rule 1)."""
        request = pb.ClaimNextRequest(
            consumer=self.consumer, claim_id=str(uuid.uuid4()), owner=self._owner(), max=most, wait=duration(wait)
        )
        if self.lease is not None:
            request.lease.CopyFrom(duration(self.lease))
        return request

    def _owner(self) -> str:
        return self.owner or f"{socket.gethostname()[:100]}/{os.getpid()}"

    def _key(self, key: Key) -> pb.EntryKey:
        if not isinstance(key, Key):
            raise InvalidField("key", f"must be a Key, not {type(key).__name__}: Key.of(source, id) makes one")
        return pb.EntryKey(
            consumer=self.consumer,
            # A key at fault is not sent: it may not be text that a message can hold.
            source="" if key.fault else key.source,
            id="" if key.fault else key.id,
            replay_run=key.replay_run,
        )


def _dated(request: Union[pb.ClaimRequest, pb.StoreRequest], occurred_at: Optional[datetime.datetime]) -> None:
    if occurred_at is not None:
        if occurred_at.tzinfo is None:
            raise InvalidField("occurred_at", "has no time zone, so that its instant is unknown")
        request.occurred_at.FromDatetime(occurred_at)


def checked_concurrency(concurrency: int) -> int:
    """The number of handlers of a worker, if it is within its bound."""
    if not 1 <= concurrency <= 1000:
        raise InvalidField("concurrency", f"is {concurrency}; 1 to 1000 are allowed")
    return concurrency
