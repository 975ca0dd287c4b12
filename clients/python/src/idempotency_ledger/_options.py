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
        if not isinstance(delivery.key, Key):
            found = type(delivery.key).__name__
            raise InvalidField("key", f"must be a Key, not {found}: Key.of(source, id) makes one")
        if delivery.body is not None and delivery.fingerprint is not None:
            raise InvalidField("fingerprint", "give the raw body or its fingerprint, not both")
        if not 0 <= delivery.wait <= 3600:
            raise InvalidField("wait", f"{delivery.wait} s is not within 0 s and an hour; the server bounds it further")
        fingerprint = Fingerprint.of(delivery.body) if delivery.body is not None else delivery.fingerprint
        request = pb.ClaimRequest(
            key=pb.EntryKey(
                consumer=self.consumer,
                # A key at fault is not sent: it may not be text that a message can hold.
                source="" if delivery.key.fault else delivery.key.source,
                id="" if delivery.key.fault else delivery.key.id,
                replay_run=delivery.key.replay_run,
            ),
            claim_id=str(uuid.uuid4()),
            owner=self.owner or f"{socket.gethostname()[:100]}/{os.getpid()}",
            fingerprint=fingerprint.digest if fingerprint else b"",
            event_type=delivery.event_type,
        )
        if self.lease is not None:
            request.lease.CopyFrom(duration(self.lease))
        if delivery.wait:
            request.wait.CopyFrom(duration(delivery.wait))
        if delivery.occurred_at is not None:
            if delivery.occurred_at.tzinfo is None:
                raise InvalidField("occurred_at", "has no time zone, so that its instant is unknown")
            request.occurred_at.FromDatetime(delivery.occurred_at)
        return request
