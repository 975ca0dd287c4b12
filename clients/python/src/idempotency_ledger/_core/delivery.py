"""The way of one delivery: claim, the handler's work, settlement. Each rule cites docs/clients.md by its number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Callable, Optional, Type, Union

from .._proto import ledger_pb2 as pb
from ..errors import ClaimLost, Doubtful, GiveBack, InvalidField, NotProtected, Park, Retry, Steer, Terminal
from ..outcome import Advice, Outcome
from .calls import repeated
from .holds import Hold
from .steps import DEFAULT_DELAY, CallFailed, Failure, Steps, World, advice_of, duration, seconds

_ERROR_LENGTH = 2000  # characters; the ledger cuts at 2 KiB
_MENDING_DELAY = 5.0  # seconds until a claim is tried again whose policy does not protect its effect
_UNANSWERED = Outcome(Advice.RETRY_LATER)
_KINDS = {Retry: pb.FAILURE_KIND_RETRYABLE, Terminal: pb.FAILURE_KIND_TERMINAL, Park: pb.FAILURE_KIND_PARK}


@dataclass(frozen=True)
class Done:
    """The handler has ended well: its effect happened."""

    result: bytes
    left_out: bool = False


def begin(
    world: World,
    request: pb.ClaimRequest,
    stopping: Callable[[], bool],
    repeat_announced: bool = False,
    fault: Optional[InvalidField] = None,
) -> Steps[Union[Hold, Outcome]]:
    """Claims the message. Returns a `Hold` where the handler shall run, else what became of the delivery.

    `fault`: what is wrong with the message's key, which the ledger would refuse in the same way.
    """
    if fault is not None:
        return Outcome(Advice.DEAD_LETTER, reason="INVALID_FIELD", detail=str(fault), error=fault)
    wait = seconds(request.wait)
    try:
        answer, sent = yield from repeated(
            world, "Claim", request, world.claim_budget + wait, world.call_timeout + wait
        )
    except CallFailed as error:
        return replace(_refused(error.failure), away=error.failure.away)
    verdict = answer.WhichOneof("verdict")
    # Rule 9: only this verdict with only this advice is a grant.
    if answer.advice != pb.ADVICE_PROCESS or verdict != "acquired":
        return _verdict(answer, verdict)
    return (yield from admitted(Hold(world, request, answer.acquired, sent), stopping, repeat_announced))


def admitted(hold: Hold, stopping: Callable[[], bool], repeat_announced: bool = False) -> Steps[Union[Hold, Outcome]]:
    """The hold, where its handler may begin now; else what became of the claim."""
    if hold.lost:  # While it waited for a handler: another attempt may be running, and nothing is settled.
        return Outcome(Advice.RETRY_LATER, DEFAULT_DELAY, effect_unknown=hold.granted.effect_unknown, reason=hold.lost)
    if stopping():
        return (yield from _given_back(hold, "CLOSING"))
    if not (yield from hold.made_sure()):
        return (yield from _given_back(hold, "LEASE_OVER"))
    if hold.granted.prior_effect_started and not repeat_announced:  # Rule 14.
        parked = yield from finish(hold, Park("an earlier attempt had announced its effect"))
        return replace(parked, reason="PRIOR_EFFECT_STARTED", effect_unknown=True, error=None)
    return hold


def _given_back(hold: Hold, reason: str) -> Steps[Outcome]:
    outcome = yield from finish(hold, GiveBack())
    return replace(outcome, reason=reason, error=None)


def ended(result: object) -> Done:
    """What the handler has returned, as a result: bytes, text, or `None`. Anything else is left out, and reported."""
    if result is None:
        return Done(b"")
    if isinstance(result, str):
        try:
            return Done(result.encode())
        except UnicodeEncodeError:  # A lone surrogate: the effect is done all the same.
            return Done(b"", left_out=True)
    if isinstance(result, (bytes, bytearray, memoryview)):
        return Done(bytes(result))
    return Done(b"", left_out=True)


def finish(hold: Hold, ending: Union[Done, BaseException], unexpected: Type[Steer] = Park) -> Steps[Outcome]:
    """Settles by how the handler ended. Nothing is sent after the first settlement (rule 13)."""
    error = None if isinstance(ending, Done) else ending
    if hold.settled is not None:
        return replace(hold.settled, error=error)
    if isinstance(ending, Done):
        hold.completing = True
        outcome = yield from _complete(hold, ending)
    elif hold.completing:
        outcome = Outcome(Advice.RETRY_LATER, DEFAULT_DELAY, reason="NO_ANSWER")
    else:
        outcome = yield from _failed(hold, _steered(hold, ending, unexpected))
    unknown = outcome.effect_unknown or hold.granted.effect_unknown
    hold.settled = replace(outcome, attempt=hold.granted.attempt, error=error, effect_unknown=unknown)
    return hold.settled


def _steered(hold: Hold, error: BaseException, unexpected: Type[Steer]) -> Steer:
    """What an error of the handler says of its effect."""
    if isinstance(error, Steer):
        return error
    if isinstance(error, NotProtected):  # Rule 15: nothing has begun.
        return GiveBack("NOT_PROTECTED", after=_MENDING_DELAY)
    # A handler that was interrupted, or whose claim is lost, cannot say what became of the effect: rule 12.
    if isinstance(error, ClaimLost) or hold.lost or not isinstance(error, Exception):
        return Doubtful(hold.over() or "INTERRUPTED")
    return unexpected(type(error).__name__)


def _complete(hold: Hold, done: Done) -> Steps[Outcome]:
    known = None if done.left_out else done.result
    base = Outcome(Advice.RETRY_LATER, DEFAULT_DELAY, known, result_dropped=done.left_out)
    request = pb.CompleteRequest(
        key=hold.request.key,
        token=hold.granted.token,
        result=done.result,
        result_left_out=done.left_out,
        event_type=hold.request.event_type,
    )
    try:
        answer = yield from _settle(hold, "Complete", request)
    except CallFailed as error:
        if error.failure.reason != "TOO_LARGE" or not done.result:
            return _refused(error.failure, base)
        request.result, request.result_left_out = b"", True  # Rule 22.
        try:
            answer = yield from _settle(hold, "Complete", request)
        except CallFailed as second:
            return _refused(second.failure, base)
    return _advised(answer, replace(base, result_dropped=answer.result_dropped))  # Rule 21.


def _failed(hold: Hold, steer: Steer) -> Steps[Outcome]:
    if isinstance(steer, Doubtful):  # Rule 12: nothing is settled, and the lease ends by itself.
        return Outcome(Advice.RETRY_LATER, DEFAULT_DELAY, effect_unknown=True, reason=steer.reason or "DOUBTFUL")
    base = Outcome(Advice.RETRY_LATER, DEFAULT_DELAY, reason=steer.reason or type(steer).__name__)
    if isinstance(steer, GiveBack):
        request: Any = pb.ReleaseRequest(
            key=hold.request.key,
            token=hold.granted.token,
            delay=duration(steer.after),
            unpin_fingerprint=steer.unpin_fingerprint,
            event_type=hold.request.event_type,
        )
        method, base = "Release", replace(base, delay=max(steer.after, 0.05))
    else:
        kind = next((_KINDS[known] for known in _KINDS if isinstance(steer, known)), pb.FAILURE_KIND_PARK)
        request = pb.FailRequest(
            key=hold.request.key,
            token=hold.granted.token,
            kind=kind,
            error=(base.reason or "")[:_ERROR_LENGTH],
            event_type=hold.request.event_type,
        )
        if isinstance(steer, Retry) and steer.after is not None:
            request.retry_after.CopyFrom(duration(steer.after))
        method = "Fail"
    try:
        return _advised((yield from _settle(hold, method, request)), base)
    except CallFailed as error:
        return _refused(error.failure, base)


def _settle(hold: Hold, method: str, request: Any) -> Steps[Any]:
    world = hold.world
    answer, _ = yield from repeated(world, method, request, world.settle_budget, world.call_timeout)
    return answer


def _verdict(answer: pb.ClaimResponse, verdict: Optional[str]) -> Outcome:
    """What a verdict other than a grant says. One that this version does not know means RETRY_LATER (rule 8)."""
    advice = advice_of(answer.advice) if verdict not in (None, "acquired") else None
    outcome = _advised(answer, Outcome(advice or Advice.RETRY_LATER, reason=verdict or "UNKNOWN_VERDICT"))
    if advice is None:
        return replace(outcome, advice=Advice.RETRY_LATER, delay=outcome.delay or DEFAULT_DELAY)
    if verdict == "completed":
        done = answer.completed
        missing = done.result_dropped or done.result_expired or done.result_omitted
        return replace(
            outcome,
            result=None if missing else done.result,
            replayed=True,
            reason=None,
            result_dropped=done.result_dropped,
            attempt=done.attempt,
        )
    return outcome


def _advised(answer: Any, base: Outcome) -> Outcome:
    """The base with the advice of an answer (rules 7 and 8), and with the wait that it names (rule 10)."""
    advice = advice_of(answer.advice) or Advice.RETRY_LATER
    if advice is not Advice.RETRY_LATER:
        return replace(base, advice=advice, delay=0.0)
    named = "retry_after" in answer.DESCRIPTOR.fields_by_name and answer.HasField("retry_after")
    delay = max(seconds(answer.retry_after), 0.05) if named else base.delay or DEFAULT_DELAY
    return replace(base, advice=advice, delay=delay)


def _refused(failure: Failure, base: Outcome = _UNANSWERED) -> Outcome:
    """What an error says: its own advice (rule 5), and RETRY_LATER where it is not the ledger's (rule 3)."""
    advice = failure.advised()
    named = DEFAULT_DELAY if failure.retry_after is None else max(failure.retry_after, 0.05)
    delay = named if advice is Advice.RETRY_LATER else 0.0
    return replace(base, advice=advice, delay=delay, reason=failure.name(), detail=failure.text)
