"""The inbox: how a message is stored, and how a worker takes those that are due (docs/contract.md, section 15)."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field, replace
from typing import Any, Deque, Dict, List, Optional, Sequence, Tuple

from .._proto import ledger_pb2 as pb
from ..errors import GiveBack, InvalidField
from ..outcome import Advice, Outcome
from .calls import repeated
from .delivery import _advised, _refused, finish
from .holds import Hold
from .steps import DEFAULT_DELAY, CallFailed, Steps, World, advice_of, seconds

_WAIT = 5.0  # seconds that a ClaimNext waits at most: a request to stop is obeyed after it
_AHEAD = 10  # messages that each handler has at hand at most: other workers may be free for the rest
_ONE_CALL = 1000  # messages that one ClaimNext may hand out
_SHORTEST_PAUSE = 0.05
# A message whose lease ran out twice in a row is handed out alone: it may kill the process that runs it.
_SUSPECT_ATTEMPT = 3


def store(world: World, request: pb.StoreRequest, fault: Optional[InvalidField]) -> Steps[Outcome]:
    """Stores the message; returns what to do with the broker's. `fault`: why the ledger would refuse it."""
    if fault is not None:
        return Outcome(Advice.DEAD_LETTER, reason="INVALID_FIELD", detail=str(fault), error=fault)
    try:
        answer, _ = yield from repeated(world, "Store", request, world.claim_budget, world.call_timeout)
    except CallFailed as error:
        return _refused(error.failure)
    verdict = answer.WhichOneof("verdict")
    if verdict is None or advice_of(answer.advice) is None:  # Rule 8.
        return Outcome(Advice.RETRY_LATER, DEFAULT_DELAY, reason=verdict or "UNKNOWN_VERDICT")
    base = Outcome(Advice.RETRY_LATER, reason=None if verdict == "stored" else verdict)
    return _advised(answer, replace(base, replayed=verdict in ("already_stored", "completed")))


@dataclass(frozen=True)
class Handout:
    """What one ClaimNext came to."""

    messages: Sequence[Tuple[Hold, pb.Handed]] = ()
    pause: float = 0.0
    """Seconds to wait before the next call."""
    again: bool = False
    """The outcome is unknown: the identical request, with its claim_id, finds what it was handed out."""
    refused: Optional[Outcome] = None
    """Why there is none, for the log."""


def take(world: World, request: pb.ClaimNextRequest) -> Steps[Handout]:
    """Sends one ClaimNext and its repeats. Each hold counts from before the try that was answered."""
    wait = seconds(request.wait)
    try:
        answer, sent = yield from repeated(
            world, "ClaimNext", request, world.claim_budget + wait, world.call_timeout + wait
        )
    except CallFailed as error:
        if error.failure.reason == "CLAIM_CLOSED":  # What it was handed out has ended: a new claim_id takes the rest.
            return Handout(pause=_SHORTEST_PAUSE)
        refused = _refused(error.failure)
        return Handout((), refused.delay or DEFAULT_DELAY, error.failure.unknown, refused)
    holds = []
    for handed in answer.messages:
        claim = pb.ClaimRequest(key=handed.key, event_type=handed.message.event_type)
        if request.HasField("lease"):
            claim.lease.CopyFrom(request.lease)
        # By this process's clock a long wait may have used up the lease: its driver sends a Renew immediately.
        holds.append((Hold(world, claim, handed.acquired, sent), handed))
    return Handout(holds, 0.0 if holds else max(seconds(answer.retry_after), _SHORTEST_PAUSE))


def release(hold: Hold, budget: float) -> Steps[Outcome]:
    """Gives a message back that no handler has begun, within `budget` seconds; the attempt does not count."""
    hold.world = replace(hold.world, settle_budget=min(budget, hold.world.settle_budget))
    return (yield from finish(hold, GiveBack("CLOSING")))


@dataclass(eq=False)
class Item:
    """A message that this process was handed out."""

    hold: Hold
    message: Any
    alone: bool = False
    """A suspect: no other handler of this worker runs meanwhile."""
    renewing: Any = None
    """What its driver needs to end the renewals while it waits."""

    @property
    def holds_up(self) -> bool:
        """Whether it waits to run alone. A lost claim ends without a handler, so that it may begin next to others."""
        return self.alone and not self.hold.lost

    @property
    def key(self) -> Tuple[str, str]:
        """Its name among those of its consumer."""
        return (self.hold.request.key.source, self.hold.request.key.id)


@dataclass
class WorkQueue:
    """The messages of a worker that wait, and those that run. Its driver guards it, and has no other rule."""

    concurrency: int
    lease: float
    waiting: Deque[Item] = field(default_factory=collections.deque)
    running: Dict[Tuple[str, str], Item] = field(default_factory=dict)
    _took: Optional[float] = None

    def room(self) -> int:
        """How many messages to ask for now; 0 while enough wait, and while a suspect waits or runs."""
        suspect = any(item.alone for item in self.running.values()) or any(item.holds_up for item in self.waiting)
        if len(self.waiting) >= self.concurrency or suspect:
            return 0
        # All leases of a handout begin with it: it is at most what half of a lease suffices for.
        ahead = 1 if self._took is None else max(1, min(_AHEAD, int(self.lease / (2 * max(self._took, 0.001)))))
        return max(0, min(_ONE_CALL, self.concurrency * ahead - len(self.waiting) - len(self.running)))

    def wait(self) -> float:
        """Seconds that a ClaimNext may wait: a quarter of the lease, which counts from before the call."""
        return min(_WAIT, self.lease / 4)

    def add(self, items: List[Item]) -> None:
        """A handout has arrived."""
        for item in items:
            granted = item.hold.granted
            self.lease = seconds(granted.lease)
            item.alone = len(items) == 1 and granted.effect_unknown and granted.attempt >= _SUSPECT_ATTEMPT
            self.waiting.append(item)

    def next(self) -> Optional[Item]:
        """The next message to run, which counts as running from now on; `None` while none may begin."""
        if len(self.running) >= self.concurrency or any(item.alone for item in self.running.values()):
            return None
        for item in self.waiting:
            if item.holds_up and self.running:
                return None
            # A handler of an earlier attempt, whose lease was lost, may still run here.
            if item.key not in self.running:
                self.waiting.remove(item)
                item.alone = item.holds_up
                self.running[item.key] = item
                return item
        return None

    def ended(self, item: Item, took: float) -> None:
        """Its handler has ended after `took` seconds."""
        del self.running[item.key]
        self._took = took if self._took is None else max(took, 0.9 * self._took + 0.1 * took)

    def drain(self) -> List[Item]:
        """The messages that have not begun; none of them begins any more."""
        left = list(self.waiting)
        self.waiting.clear()
        return left
