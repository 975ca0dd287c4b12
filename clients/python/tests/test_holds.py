"""How a lease is renewed and lost, and what is announced and saved under it."""

from __future__ import annotations

from typing import Any, List

import pytest
from world import HOP, Play, ours

from idempotency_ledger import Advice, Outcome
from idempotency_ledger._core.steps import Failure, duration
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger.errors import AnnouncementFailed, CheckpointDropped, ClaimLost, NotProtected


def renewed(lease: float = 30.0, **fields: Any) -> pb.RenewResponse:
    return pb.RenewResponse(lease=duration(lease), **fields)


def times(play: Play) -> List[float]:
    return [round(at - 1000, 3) for _, _, _, at in play.sent]


def test_lease_is_renewed_at_a_third_of_it() -> None:
    play = Play(*[renewed()] * 4)
    assert play.run(play.hold().renewing(), until=1045) is None
    assert times(play) == [10, 20, 30, 40]


def test_renewal_counts_from_its_sending() -> None:
    play = Play(*[renewed()] * 3, takes=2)
    hold = play.hold()
    play.run(hold.renewing(), until=1035)
    assert times(play) == [10, 20, 30]
    assert hold.lease_until == 1060


def test_nothing_is_renewed_beyond_the_hold() -> None:
    play = Play(renewed(), renewed(), renewed(), renewed(), renewed(), renewed(), renewed(30))
    hold = play.hold()
    assert play.run(hold.renewing()) == "LEASE_OVER"
    assert times(play) == [10, 20, 30, 40, 50, 60, 70]
    assert play.now == 1100


def test_hold_of_an_answer_is_the_end_of_renewals() -> None:
    play = Play(renewed(lease=20, hold=duration(20)), takes=1)
    hold = play.hold()
    assert play.run(hold.renewing()) == "LEASE_OVER"
    assert (times(play), play.now) == ([10], 1030)


@pytest.mark.parametrize("completing", [False, True])
def test_claim_that_is_completed_is_not_lost(completing: bool) -> None:
    play = Play(ours("CLAIM_CLOSED"))
    hold = play.hold()
    hold.completing = completing
    assert play.run(hold.renewing()) == (None if completing else "CLAIM_CLOSED")
    hold.settled = Outcome(Advice.ACK)
    assert play.run(hold.renewing()) is None
    assert len(play.sent) == 1


@pytest.mark.parametrize("reason", ["LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE"])
def test_claim_that_is_over_is_lost_immediately(reason: str) -> None:
    play = Play(ours(reason))
    assert play.run(play.hold().renewing()) == reason
    assert play.now == 1010


@pytest.mark.parametrize(
    "failure",
    [
        HOP,
        Failure("UNAVAILABLE"),
        ours("STORE_UNAVAILABLE", after=1),
        ours("CONSUMER_NOT_ALLOWED"),
        ours("LEASE_LIMIT_REACHED"),
        ours("UNAUTHENTICATED"),
    ],
)
def test_lease_that_cannot_be_renewed_is_lost_at_its_end(failure: Failure) -> None:
    play = Play(*[failure] * 200)
    assert play.run(play.hold().renewing()) == "LEASE_OVER"
    assert 1029.8 <= play.now <= 1030.1
    assert len(play.sent) < 40


def test_refusal_that_is_mended_loses_nothing() -> None:
    play = Play(ours("UNAUTHENTICATED"), *[renewed()] * 9)
    assert play.run(play.hold().renewing(), until=1040) is None
    assert times(play)[0] == 10
    assert times(play)[1] < 17


def test_process_that_stood_still_asks_once() -> None:
    for answer, found in ((renewed(revived=True), None), (ours("LEASE_LOST"), "LEASE_LOST"), (HOP, "LEASE_OVER")):
        play = Play(*[answer] * 10)
        steps = play.hold().renewing()
        steps.send(None)
        play.now += 60  # Longer than the lease.
        step = steps.send(None)
        assert play.now == 1060
        result = play.run(_resumed(steps, play, step), until=1075)
        assert result == found


def _resumed(steps: Any, play: Play, step: Any) -> Any:
    answer = play.answer(step)
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            return end.value
        answer = yield step


def test_check_by_the_clock_and_by_the_ledger() -> None:
    play = Play()
    hold = play.hold()
    hold.check()
    play.now += 30
    with pytest.raises(ClaimLost, match="LEASE_OVER"):
        hold.check()
    hold.lost = "LEASE_LOST"
    with pytest.raises(ClaimLost, match="LEASE_LOST"):
        hold.check()


@pytest.mark.parametrize(
    ("on_expiry", "protected"),
    [
        (pb.ON_EXPIRY_PARK, True),
        (pb.ON_EXPIRY_PARK_IF_STARTED, True),
        (pb.ON_EXPIRY_RECLAIM, False),
        (pb.ON_EXPIRY_UNSPECIFIED, False),
    ],
)
def test_announcement_needs_a_policy_that_parks(on_expiry: pb.OnExpiry, protected: bool) -> None:
    play = Play(renewed())
    hold = play.hold(on_expiry=on_expiry)
    if protected:
        play.run(hold.announce())
        assert play.sent[0][1].effect_started
    else:
        with pytest.raises(NotProtected):
            play.run(hold.announce())
        assert play.sent == []
    assert hold.announced == protected


@pytest.mark.parametrize("script", [[HOP] * 200, [ours("LEASE_LOST")], [ours("CONSUMER_NOT_ALLOWED")]])
def test_announcement_that_is_not_confirmed_is_an_error(script: Any) -> None:
    play = Play(*script)
    hold = play.hold(on_expiry=pb.ON_EXPIRY_PARK_IF_STARTED)
    with pytest.raises(AnnouncementFailed):
        play.run(hold.announce())
    assert hold.announced
    assert play.now <= 1030


def test_announcement_after_the_lease_is_not_sent() -> None:
    play = Play()
    hold = play.hold(on_expiry=pb.ON_EXPIRY_PARK)
    play.now += 31
    with pytest.raises(ClaimLost):
        play.run(hold.announce())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (renewed(), None),
        (renewed(checkpoint_dropped=True), CheckpointDropped),
        (ours("TOO_LARGE"), CheckpointDropped),
        (ours("LEASE_LOST"), ClaimLost),
    ],
)
def test_checkpoint_that_is_not_stored_is_an_error(answer: Any, error: Any) -> None:
    play = Play(answer)
    hold = play.hold()
    if error is None:
        play.run(hold.save(b"half"))
    else:
        with pytest.raises(error):
            play.run(hold.save(b"half"))
    assert play.sent[0][1].checkpoint == b"half"
    assert not play.sent[0][1].effect_started


def test_renewal_asks_for_the_lease_of_the_claim() -> None:
    play = Play(renewed())
    hold = play.hold()
    hold.request.lease.CopyFrom(duration(12))
    play.run(hold.save(b""))
    assert play.sent[0][1].lease.seconds == 12
