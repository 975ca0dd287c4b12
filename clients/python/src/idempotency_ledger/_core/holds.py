"""A granted claim: how long it is held, how it is renewed, what is announced and saved under it."""

from __future__ import annotations

from typing import Any, Optional

from .._proto import ledger_pb2 as pb
from ..errors import AnnouncementFailed, CheckpointDropped, ClaimLost, NotProtected
from ..outcome import Outcome
from .calls import repeated
from .steps import CallFailed, Sleep, Steps, World, seconds

_PARKING = (pb.ON_EXPIRY_PARK, pb.ON_EXPIRY_PARK_IF_STARTED)
# What the ledger answers where the claim is over. Any other error leaves the lease as it is.
_OVER = frozenset({"LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE"})
# A process that stood still for this long may find its lease over although no other claim was granted the key: a
# Renew that is answered within the budget finds out.
_LATE = 0.1
_LATE_BUDGET = 1.0
_SHORTEST_WAIT = 0.1
LEASE_OVER = "LEASE_OVER"


class Hold:
    """A granted claim. Its instants count from before the call was sent, so that they are early rather than late."""

    def __init__(self, world: World, request: pb.ClaimRequest, granted: pb.Acquired, sent: float) -> None:
        self.world = world
        self.request = request
        self.granted = granted
        self.lease_until = sent + seconds(granted.lease)
        self.hold_until = sent + seconds(granted.hold) if granted.HasField("hold") else float("inf")
        self.renew_at = sent + seconds(granted.lease) / 3
        self.announced = False
        self.lost: Optional[str] = None
        # From the first Complete on: its outcome may be unknown, and nothing but a Complete may be sent any more.
        self.completing = False
        # What the first settlement came to; nothing else is sent after it.
        self.settled: Optional[Outcome] = None

    def over(self) -> Optional[str]:
        """Why the claim must not be acted under any more; `None` while it is held."""
        return self.lost or (LEASE_OVER if self.world.clock() >= self.lease_until else None)

    def check(self) -> None:
        """Raises `ClaimLost` where the claim is not held any more."""
        reason = self.over()
        if reason:
            raise ClaimLost(reason)

    def _renew(self, budget: float, **fields: Any) -> Steps[pb.RenewResponse]:
        request = pb.RenewRequest(key=self.request.key, token=self.granted.token, **fields)
        if self.request.HasField("lease"):
            request.lease.CopyFrom(self.request.lease)
        answer, sent = yield from repeated(self.world, "Renew", request, budget, self.world.call_timeout)
        left = seconds(answer.lease)
        self.lease_until = max(self.lease_until, sent + left)
        self.renew_at = sent + left / 3
        if answer.HasField("hold"):
            self.hold_until = min(self.hold_until, sent + seconds(answer.hold))
        assert isinstance(answer, pb.RenewResponse)
        return answer

    def made_sure(self) -> Steps[bool]:
        """Whether the handler may run. A Claim that has waited may have used up its lease by this process's clock,
        which counts from before it was sent, and so may a process that stood still: a Renew says how it stands."""
        if self.over():
            try:
                yield from self._renew(self.world.call_timeout)
            except CallFailed:
                return False
        return not self.over()

    def announce(self) -> Steps[None]:
        """Tells the ledger that the effect is about to start. Returns once the ledger has confirmed it."""
        self.check()
        if self.granted.on_expiry not in _PARKING:
            raise NotProtected(pb.OnExpiry.Name(self.granted.on_expiry))
        self.announced = True  # The ledger may know it although its answer is lost.
        try:
            yield from self._renew(self.lease_until - self.world.clock(), effect_started=True)
        except CallFailed as error:
            raise AnnouncementFailed(f"the announcement is not confirmed: {error}") from None
        self.check()

    def save(self, checkpoint: bytes) -> Steps[None]:
        """Stores the checkpoint, which the next attempt finds."""
        self.check()
        try:
            answer = yield from self._renew(self.lease_until - self.world.clock(), checkpoint=checkpoint)
        except CallFailed as error:
            if error.failure.reason == "TOO_LARGE":
                raise CheckpointDropped("the request with the checkpoint is larger than the server takes") from None
            raise ClaimLost(error.failure.name()) from None
        if answer.checkpoint_dropped:
            raise CheckpointDropped("the checkpoint is larger than the server's bound; the earlier one stays")

    def renewing(self) -> Steps[Optional[str]]:
        """Renews the lease at a third of it, until the claim is lost; returns why. `None`: it is settled."""
        clock = self.world.clock
        while True:
            # The last part of the hold cannot be extended: nothing more is sent, and the claim ends with its lease.
            final = self.lease_until + 0.001 >= self.hold_until
            until = self.lease_until if final else min(self.renew_at, self.lease_until)
            yield Sleep(max(0.0, until - clock()))
            if self.settled is not None:
                return None
            if final and clock() >= self.lease_until:
                return LEASE_OVER
            if final or clock() < min(self.renew_at, self.lease_until):
                continue  # Announced or saved meanwhile, which renews too.
            over = clock() >= self.lease_until
            if over and clock() < until + _LATE:
                return LEASE_OVER
            try:
                yield from self._renew(_LATE_BUDGET if over else self.lease_until - clock())
            except CallFailed as error:
                if error.failure.reason in _OVER:
                    # After a Complete the ledger has closed the claim, whether its answer has arrived here or not.
                    return None if self.completing else str(error.failure.reason)
                if clock() >= self.lease_until:
                    return LEASE_OVER
                # Refused for now (rights, the limit of the hold): the lease that is left still stands.
                self.renew_at = min(self.lease_until, clock() + max(_SHORTEST_WAIT, (self.lease_until - clock()) / 3))
