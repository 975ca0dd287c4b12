"""How calls are repeated: what is repeated, when, how often, and with which deadline."""

from __future__ import annotations

from typing import Any, List, Optional

import pytest
from world import HOP, KEY, Play, ours

from idempotency_ledger._core.calls import repeated
from idempotency_ledger._core.steps import CallFailed, Failure, duration
from idempotency_ledger._proto import ledger_pb2 as pb

REQUEST = pb.CompleteRequest(key=KEY, token=7, result=b"r")
DONE = pb.CompleteResponse(advice=pb.ADVICE_ACK)


@pytest.mark.parametrize(
    ("failures", "waits"),
    [
        ([], []),
        ([HOP], [0.05]),
        ([Failure("UNAVAILABLE"), Failure("UNKNOWN"), Failure("CANCELLED")], [0.05, 0.1, 0.2]),
        ([Failure("NOT_FOUND")], [0.05]),
        ([ours("OUTCOME_UNKNOWN", after=0.05)], [0.05]),
        ([ours("DEADLINE_EXCEEDED")], [0.05]),
        ([ours("CANCELLED")], [0.05]),
        ([ours("OVERLOADED", after=0.7)], [0.7]),
        ([ours("NEWER", after=2.5)], [2.5]),
        ([HOP] * 7, [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]),
    ],
)
def test_unknown_outcome_repeats_the_identical_request(failures: List[Failure], waits: List[float]) -> None:
    play = Play(*failures, DONE)
    answer, sent = play.run(repeated(play.world, "Complete", REQUEST, 30, 5))
    assert (answer, sent) == (DONE, play.now)
    assert play.slept == pytest.approx(waits)
    assert all(request == REQUEST for _, request, _, _ in play.sent)
    assert play.repeats == [False] + [True] * len(failures)


@pytest.mark.parametrize(
    "reason",
    [
        "INVALID_FIELD",
        "TOO_LARGE",
        "CLAIM_CLOSED",
        "LEASE_LOST",
        "ENTRY_NOT_FOUND",
        "UNAUTHENTICATED",
        "INTERNAL",
        "NEWER",
    ],
)
def test_refusal_is_not_repeated(reason: str) -> None:
    play = Play(ours(reason))
    with pytest.raises(CallFailed, match=reason):
        play.run(repeated(play.world, "Complete", REQUEST, 30, 5))
    assert play.slept == []


@pytest.mark.parametrize(
    ("failure", "budget", "takes", "calls"),
    [
        (HOP, 0.2, 0.0, 3),  # after 0, 50 and 150 ms
        (HOP, 0.0, 0.0, 1),
        (HOP, 1.0, 0.9, 2),
        (ours("CONSUMER_DISABLED", after=30), 10.0, 0.0, 1),
        (ours("CONSUMER_DISABLED", after=3), 10.0, 0.0, 4),
    ],
)
def test_budget_bounds_the_repeats(failure: Failure, budget: float, takes: float, calls: int) -> None:
    play = Play(*[failure] * 50, takes=takes)
    with pytest.raises(CallFailed):
        play.run(repeated(play.world, "Complete", REQUEST, budget, 5))
    assert len(play.sent) == calls


def test_deadline_is_that_of_a_try_or_what_the_budget_leaves() -> None:
    play = Play(HOP, HOP, DONE, takes=5)
    play.run(repeated(play.world, "Complete", REQUEST, 12, 5))
    assert [timeout for _, _, timeout, _ in play.sent] == pytest.approx([5, 5, 12 - 10.15])


@pytest.mark.parametrize(("random", "wait"), [(0.0, 0.025), (0.5, 0.0375), (1.0, 0.05)])
def test_pause_has_jitter(random: float, wait: float) -> None:
    play = Play(HOP, DONE)
    world: Any = play.world
    object.__setattr__(world, "random", lambda: random)
    play.run(repeated(world, "Complete", REQUEST, 30, 5))
    assert play.slept == pytest.approx([wait])


@pytest.mark.parametrize(
    ("reason", "advice", "known"),
    [
        ("X", "ACK", "ACK"),
        ("X", "DEAD_LETTER", "DEAD_LETTER"),
        ("X", "RETRY_LATER", "RETRY_LATER"),
        ("X", "PROCESS", "RETRY_LATER"),
        ("X", "NEWER", "RETRY_LATER"),
        ("X", None, "RETRY_LATER"),
        (None, "ACK", "RETRY_LATER"),
    ],
)
def test_advice_of_an_error(reason: Optional[str], advice: Optional[str], known: str) -> None:
    assert Failure("ABORTED", reason, advice).advised().value == known


@pytest.mark.parametrize(
    ("given", "nanos"), [(1 / 3, 333_333_000), (0.25000025, 250_000_000), (0.9999999, 0), (2.5, 500_000_000)]
)
def test_durations_have_whole_microseconds(given: float, nanos: int) -> None:
    assert duration(given).nanos == nanos
