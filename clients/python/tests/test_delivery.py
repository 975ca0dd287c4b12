"""The way of a delivery: verdicts, endings, settlements. Each row is a rule of docs/clients.md."""

from __future__ import annotations

from typing import Any, Optional, Type

import pytest
from world import HOP, KEY, Play, acquired, ours

from idempotency_ledger import Advice, Doubtful, GiveBack, NotProtected, Outcome, Park, Retry, Steer, Terminal
from idempotency_ledger._core.delivery import Done, begin, ended, finish
from idempotency_ledger._core.holds import Hold
from idempotency_ledger._core.steps import Failure, duration
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger.errors import ClaimLost

CLAIM = pb.ClaimRequest(key=KEY, claim_id="x")
ACK, RETRY, DEAD = Advice.ACK, Advice.RETRY_LATER, Advice.DEAD_LETTER
RELEASED = pb.ReleaseResponse(advice=pb.ADVICE_RETRY_LATER)


def begun(play: Play, stopping: bool = False, repeat_announced: bool = False, **request: Any) -> Any:
    claim = pb.ClaimRequest(key=KEY, claim_id="x", **request)
    return play.run(begin(play.world, claim, lambda: stopping, repeat_announced))


@pytest.mark.parametrize(
    ("answer", "advice", "delay", "reason"),
    [
        (pb.ClaimResponse(advice=pb.ADVICE_ACK, completed=pb.Completed(result=b"r")), ACK, 0, None),
        (pb.ClaimResponse(advice=pb.ADVICE_ACK, suppressed=pb.Suppressed()), ACK, 0, "suppressed"),
        (
            pb.ClaimResponse(advice=pb.ADVICE_RETRY_LATER, in_progress=pb.InProgress(), retry_after=duration(7)),
            RETRY,
            7,
            "in_progress",
        ),
        (pb.ClaimResponse(advice=pb.ADVICE_RETRY_LATER, backoff=pb.Backoff()), RETRY, 1, "backoff"),
        (
            pb.ClaimResponse(advice=pb.ADVICE_RETRY_LATER, backoff=pb.Backoff(), retry_after=duration(0)),
            RETRY,
            0.05,
            "backoff",
        ),
        (pb.ClaimResponse(advice=pb.ADVICE_DEAD_LETTER, failed=pb.Failed()), DEAD, 0, "failed"),
        (pb.ClaimResponse(advice=pb.ADVICE_DEAD_LETTER, parked=pb.Parked()), DEAD, 0, "parked"),
        (
            pb.ClaimResponse(advice=pb.ADVICE_DEAD_LETTER, fingerprint_mismatch=pb.FingerprintMismatch()),
            DEAD,
            0,
            "fingerprint_mismatch",
        ),
        (pb.ClaimResponse(advice=pb.ADVICE_DEAD_LETTER, outside_window=pb.OutsideWindow()), DEAD, 0, "outside_window"),
        # Rules 8 and 9: what this version does not know, or what contradicts itself.
        (pb.ClaimResponse(advice=pb.ADVICE_ACK), RETRY, 1, "UNKNOWN_VERDICT"),
        (pb.ClaimResponse(advice=pb.ADVICE_PROCESS), RETRY, 1, "UNKNOWN_VERDICT"),
        (pb.ClaimResponse(), RETRY, 1, "UNKNOWN_VERDICT"),
        (pb.ClaimResponse(advice=99, completed=pb.Completed()), RETRY, 1, "completed"),  # type: ignore[arg-type]
        (pb.ClaimResponse(advice=pb.ADVICE_ACK, acquired=pb.Acquired(token=1)), RETRY, 1, "acquired"),
        (pb.ClaimResponse(advice=pb.ADVICE_PROCESS, completed=pb.Completed()), RETRY, 1, "completed"),
        (ours("CONSUMER_DISABLED", after=30), RETRY, 30, "CONSUMER_DISABLED"),
        (ours("INVALID_FIELD", "DEAD_LETTER"), DEAD, 0, "INVALID_FIELD"),
        (ours("CLAIM_CLOSED", "ACK"), ACK, 0, "CLAIM_CLOSED"),
    ],
)
def test_verdict_becomes_an_outcome(answer: Any, advice: Advice, delay: float, reason: Optional[str]) -> None:
    play = Play(answer)
    outcome = begun(play)
    assert isinstance(outcome, Outcome)
    assert (outcome.advice, outcome.delay, outcome.reason) == (advice, delay, reason)
    assert play.methods == ["Claim"]


def test_no_answer_is_retry_later() -> None:
    play = Play(*[HOP] * 100)
    outcome = begun(play)
    assert (outcome.advice, outcome.delay, outcome.reason) == (RETRY, 1, "NO_ANSWER (INTERNAL)")
    assert 3 < len(play.sent) < 20


@pytest.mark.parametrize(
    ("completed", "result", "dropped"),
    [
        (pb.Completed(result=b"r", attempt=2), b"r", False),
        (pb.Completed(attempt=2), b"", False),
        (pb.Completed(result_dropped=True, attempt=2), None, True),
        (pb.Completed(result_expired=True, attempt=2), None, False),
        (pb.Completed(result_omitted=True, attempt=2), None, False),
    ],
)
def test_completed_carries_the_result_only_where_it_is_the_answer(
    completed: pb.Completed, result: Optional[bytes], dropped: bool
) -> None:
    outcome = begun(Play(pb.ClaimResponse(advice=pb.ADVICE_ACK, completed=completed)))
    assert outcome == Outcome(ACK, result=result, replayed=True, result_dropped=dropped, attempt=2)


def test_grant_becomes_a_hold() -> None:
    play = Play(acquired(lease=30), takes=2)
    hold = begun(play)
    assert isinstance(hold, Hold)
    assert (hold.lease_until, hold.renew_at) == (1030, 1010)  # From before the call was sent.


def test_wait_lengthens_the_deadline_of_a_claim() -> None:
    play = Play(acquired())
    begun(play, wait=duration(8))
    assert play.sent[0][2] == 13


@pytest.mark.parametrize(
    ("fields", "kwargs", "sent", "reason", "advice"),
    [
        ({}, {"stopping": True}, "Release", "CLOSING", RETRY),
        ({"prior_effect_started": True}, {}, "Fail", "PRIOR_EFFECT_STARTED", DEAD),
    ],
)
def test_grant_that_is_not_processed_is_settled(
    fields: Any, kwargs: Any, sent: str, reason: str, advice: Advice
) -> None:
    answer = RELEASED if sent == "Release" else pb.FailResponse(advice=pb.ADVICE_DEAD_LETTER)
    play = Play(acquired(**fields), answer)
    outcome = begun(play, **kwargs)
    assert (play.methods, outcome.reason, outcome.advice) == (["Claim", sent], reason, advice)
    if sent == "Fail":
        assert play.sent[1][1].kind == pb.FAILURE_KIND_PARK
        assert outcome.effect_unknown


def test_announced_effect_is_processed_where_told_to() -> None:
    assert isinstance(begun(Play(acquired(prior_effect_started=True)), repeat_announced=True), Hold)


@pytest.mark.parametrize(
    ("renewal", "held"),
    [
        (pb.RenewResponse(lease=duration(30)), True),
        (ours("LEASE_LOST"), False),
    ],
)
def test_lease_that_a_wait_has_used_up_is_renewed_before_the_handler(renewal: Any, held: bool) -> None:
    play = Play(acquired(lease=1), renewal, RELEASED)

    def slow() -> Any:
        play.now += 3
        return acquired(lease=1)

    play.script[0] = slow
    begun_ = begun(play, wait=duration(5))
    assert isinstance(begun_, Hold) == held
    assert play.methods == (["Claim", "Renew"] if held else ["Claim", "Renew", "Release"])


@pytest.mark.parametrize(
    ("value", "done"),
    [
        (None, Done(b"")),
        (b"r", Done(b"r")),
        ("é", Done(b"\xc3\xa9")),
        (bytearray(b"r"), Done(b"r")),
        ({"a": 1}, Done(b"", left_out=True)),
        (7, Done(b"", left_out=True)),
        ("\ud800", Done(b"", left_out=True)),
    ],
)
def test_value_of_a_handler_becomes_a_result(value: object, done: Done) -> None:
    assert ended(value) == done


FAILED = pb.FailResponse(advice=pb.ADVICE_RETRY_LATER, retry_after=duration(9))
PARKED = pb.FailResponse(advice=pb.ADVICE_DEAD_LETTER)


@pytest.mark.parametrize(
    ("error", "unexpected", "kind", "text", "after", "answer", "advice", "delay"),
    [
        (Retry(), Park, pb.FAILURE_KIND_RETRYABLE, "Retry", None, FAILED, RETRY, 9),
        (Retry("down", after=9), Park, pb.FAILURE_KIND_RETRYABLE, "down", 9, FAILED, RETRY, 9),
        (Terminal("no"), Park, pb.FAILURE_KIND_TERMINAL, "no", None, PARKED, DEAD, 0),
        (Park("look"), Park, pb.FAILURE_KIND_PARK, "look", None, PARKED, DEAD, 0),
        (ValueError("secret"), Park, pb.FAILURE_KIND_PARK, "ValueError", None, PARKED, DEAD, 0),
        (ValueError("secret"), Retry, pb.FAILURE_KIND_RETRYABLE, "ValueError", None, FAILED, RETRY, 9),
        (Park("x" * 5000), Park, pb.FAILURE_KIND_PARK, "x" * 2000, None, PARKED, DEAD, 0),
        # A person has parked it meanwhile: the advice of the answer counts, not the error.
        (Retry(), Park, pb.FAILURE_KIND_RETRYABLE, "Retry", None, PARKED, DEAD, 0),
    ],
)
def test_error_becomes_a_fail(
    error: Exception,
    unexpected: Type[Steer],
    kind: int,
    text: str,
    after: Optional[float],
    answer: Any,
    advice: Advice,
    delay: float,
) -> None:
    play = Play(answer)
    outcome = play.run(finish(play.hold(), error, unexpected))
    ((method, request, _, _),) = play.sent
    assert (method, request.kind, request.error, request.token) == ("Fail", kind, text, 2**53 - 1)
    assert (request.retry_after.seconds if request.HasField("retry_after") else None) == after
    assert (outcome.advice, outcome.delay, outcome.error) == (advice, delay, error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Doubtful(), "DOUBTFUL"),
        (Doubtful("guard"), "guard"),
        (KeyboardInterrupt(), "INTERRUPTED"),
        (ClaimLost("LEASE_OVER"), "INTERRUPTED"),
    ],
)
def test_doubtful_effect_settles_nothing(error: BaseException, reason: str) -> None:
    play = Play()
    outcome = play.run(finish(play.hold(), error))
    assert (outcome.advice, outcome.delay, outcome.reason, outcome.effect_unknown) == (RETRY, 1, reason, True)


def test_error_of_a_lost_claim_settles_nothing() -> None:
    play = Play()
    hold = play.hold()
    hold.lost = "LEASE_LOST"
    assert play.run(finish(hold, ValueError())).reason == "LEASE_LOST"


@pytest.mark.parametrize(
    ("error", "delay", "unpin", "reason"),
    [
        (GiveBack(), 0.05, False, "GiveBack"),
        (GiveBack("busy", after=3, unpin_fingerprint=True), 3, True, "busy"),
        (NotProtected("RECLAIM"), 5, False, "NOT_PROTECTED"),
    ],
)
def test_what_has_not_begun_is_released(error: Exception, delay: float, unpin: bool, reason: str) -> None:
    play = Play(RELEASED)
    outcome = play.run(finish(play.hold(), error))
    ((method, request, _, _),) = play.sent
    assert (method, request.unpin_fingerprint) == ("Release", unpin)
    assert (outcome.advice, outcome.delay, outcome.reason) == (RETRY, delay, reason)


@pytest.mark.parametrize(
    ("answer", "advice", "reason", "result", "dropped"),
    [
        (pb.CompleteResponse(advice=pb.ADVICE_ACK), ACK, None, b"r", False),
        (pb.CompleteResponse(advice=pb.ADVICE_ACK, result_dropped=True), ACK, None, b"r", True),
        (pb.CompleteResponse(advice=pb.ADVICE_RETRY_LATER), RETRY, None, b"r", False),
        (pb.CompleteResponse(advice=99), RETRY, None, b"r", False),  # type: ignore[arg-type]
        (pb.CompleteResponse(), RETRY, None, b"r", False),
        (ours("LEASE_LOST", "ACK"), ACK, "LEASE_LOST", b"r", False),
        (ours("LEASE_LOST", "RETRY_LATER"), RETRY, "LEASE_LOST", b"r", False),
        (ours("CLAIM_CLOSED", "DEAD_LETTER"), DEAD, "CLAIM_CLOSED", b"r", False),
    ],
)
def test_complete_follows_its_advice(
    answer: Any, advice: Advice, reason: Optional[str], result: bytes, dropped: bool
) -> None:
    play = Play(answer)
    outcome = play.run(finish(play.hold(), Done(b"r")))
    assert (outcome.advice, outcome.reason, outcome.result, outcome.result_dropped) == (advice, reason, result, dropped)
    assert play.methods == ["Complete"]


@pytest.mark.parametrize(
    ("script", "advice", "methods"),
    [
        ([ours("TOO_LARGE"), pb.CompleteResponse(advice=pb.ADVICE_ACK, result_dropped=True)], ACK, 2),
        ([ours("TOO_LARGE"), HOP, pb.CompleteResponse(advice=pb.ADVICE_ACK, result_dropped=True)], ACK, 3),
        ([ours("TOO_LARGE"), ours("TOO_LARGE")], RETRY, 2),
    ],
)
def test_too_large_complete_is_repeated_without_its_result(script: Any, advice: Advice, methods: int) -> None:
    play = Play(*script)
    outcome = play.run(finish(play.hold(), Done(b"r")))
    assert (outcome.advice, play.methods) == (advice, ["Complete"] * methods)
    assert [(request.result, request.result_left_out) for _, request, _, _ in play.sent[1:]] == [(b"", True)] * (
        methods - 1
    )


@pytest.mark.parametrize(
    "first",
    [pb.CompleteResponse(advice=pb.ADVICE_ACK), ours("INTERNAL"), Failure("PERMISSION_DENIED", "CONSUMER_NOT_ALLOWED")],
)
@pytest.mark.parametrize("then", [ValueError(), Retry(), Park(), GiveBack()])
def test_nothing_is_sent_after_a_complete(first: Any, then: Exception) -> None:
    play = Play(first)
    hold = play.hold()
    completed = play.run(finish(hold, Done(b"r")))
    again = play.run(finish(hold, then))
    assert (again.advice, again.error, play.methods) == (completed.advice, then, ["Complete"])


def test_nothing_is_sent_after_a_complete_that_was_interrupted() -> None:
    play = Play()
    hold = play.hold()
    steps = finish(hold, Done(b"r"))
    steps.send(None)  # The Complete is sent, and its driver is interrupted.
    steps.close()
    outcome = play.run(finish(hold, ValueError()))
    assert (outcome.advice, outcome.reason, play.methods) == (RETRY, "NO_ANSWER", [])


def test_doubt_of_the_grant_is_handed_on() -> None:
    play = Play(pb.CompleteResponse(advice=pb.ADVICE_ACK))
    assert play.run(finish(play.hold(effect_unknown=True), Done(b""))).effect_unknown
