"""Calls whose answers are lost, late or errors: rules 1 to 6."""

from __future__ import annotations

import time

from scene import EFFECT, PAUSE, Scene, advises, check, same, scenario, step


@scenario(1, 3, 4)
def lost_answer_of_claim(s: Scene) -> None:
    s.fault("Claim", "lose")
    id = s.new_id()
    began = time.monotonic()
    advises(s.subject().process_one(id, EFFECT), "ACK")
    same(s.proxy.of("Claim"), 2)
    check(time.monotonic() - began < 10, "the repeat was not answered its own grant")
    answer = s.proxy.answers[1][1]
    check(answer.acquired.replayed and answer.acquired.attempt == 1, f"the repeat was answered {answer}")
    s.effects(id)


@scenario(3, 4)
def lost_answer_of_complete(s: Scene) -> None:
    s.fault("Complete", "lose")
    id = s.new_id()
    advises(s.subject().process_one(id, EFFECT, step("return", result="paid")), "ACK")
    same(s.proxy.of("Complete"), 2)
    check(s.state(id) == "COMPLETED", s.state(id))
    s.effects(id)


@scenario(3, 4)
def lost_answer_of_fail(s: Scene) -> None:
    s.fault("Fail", "lose")
    id = s.new_id()
    advises(s.subject().process_one(id, step("raise", error="Retry", after=7)), "RETRY_LATER")
    same(s.proxy.of("Fail"), 2)
    check(s.state(id) == "FAILED_RETRYABLE", s.state(id))


@scenario(3, 4)
def lost_answer_of_release(s: Scene) -> None:
    s.fault("Release", "lose")
    id = s.new_id()
    advises(s.subject().process_one(id, step("raise", error="GiveBack")), "RETRY_LATER")
    same(s.proxy.of("Release"), 2)
    check(s.state(id) == "RECEIVED", s.state(id))


@scenario(3, 4, 17)
def lost_answer_of_renew(s: Scene) -> None:
    s.fault("Renew", "lose")
    id = s.new_id()
    subject = s.subject()
    call = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", call)
    same(s.proxy.wait_for("Renew", 3)[:2], 2)
    subject.send("go", call=call)
    advises(subject.outcome(call), "ACK")
    s.effects(id)


@scenario(3, 6)
def reset_by_a_hop(s: Scene) -> None:
    s.fault("Claim", "reset")
    s.fault("Complete", "reset")
    id = s.new_id()
    advises(s.subject().process_one(id, EFFECT), "ACK")
    same(s.proxy.of("Claim"), 2)
    same(s.proxy.of("Complete"), 2)
    s.effects(id)


@scenario(3, 4)
def unavailable_then_fine(s: Scene) -> None:
    s.fault("Claim", "unavailable", times=2)
    s.fault("Complete", "unavailable", times=2)
    id = s.new_id()
    advises(s.subject().process_one(id, EFFECT), "ACK")
    same(s.proxy.of("Claim"), 3)
    same(s.proxy.of("Complete"), 3)
    s.effects(id)


@scenario(2, 4, 6)
def slower_than_the_deadline(s: Scene) -> None:
    s.fault("Claim", "swallow")
    s.fault("Complete", "hang")
    id = s.new_id()
    advises(s.subject().process_one(id, EFFECT), "ACK")
    same(s.proxy.of("Claim"), 2)
    same(s.proxy.of("Complete"), 2)
    s.effects(id)


@scenario(4)
def a_hop_that_is_broken_for_ever(s: Scene) -> None:
    claims, completes = s.new_id(), s.new_id()
    s.fault("Claim", "reset", times=-1, id=claims)
    s.fault("Complete", "reset", times=-1, id=completes)
    subject = s.subject()
    waiting = [subject.begin(claims, EFFECT), subject.begin(completes, EFFECT)]
    for call in waiting:
        advises(subject.outcome(call, seconds=60), "RETRY_LATER")
    for method, id in (("Claim", claims), ("Complete", completes)):
        calls = s.proxy.of(method, id)
        same(calls, len(calls))
        check(3 <= len(calls) <= 100, f"{len(calls)} calls of {method} before it was given up")
    check(not s.proxy.of("Fail"), "an effect that is done was reported as failed")
    s.effects(claims, 0)
    s.effects(completes)


@scenario(5)
def advice_of_an_error(s: Scene) -> None:
    subject = s.subject()
    for reason, code, advice in (("INVALID_FIELD", "INVALID_ARGUMENT", "DEAD_LETTER"),
                                 ("CONSUMER_NOT_ALLOWED", "PERMISSION_DENIED", "RETRY_LATER"),
                                 ("CLAIM_CLOSED", "ABORTED", "ACK"),
                                 ("NEWER_REASON", "FAILED_PRECONDITION", "NEWER_ADVICE")):
        id = s.new_id()
        s.fault("Claim", "refuse", code=code, reason=reason, advice=advice, id=id)
        outcome = subject.process_one(id, EFFECT)
        advises(outcome, "RETRY_LATER" if advice == "NEWER_ADVICE" else advice, reason)
        same(s.proxy.of("Claim", id), 1)
        s.effects(id, 0)


@scenario(4, 10)
def retry_after_of_an_error(s: Scene) -> None:
    s.fault("Claim", "refuse", code="RESOURCE_EXHAUSTED", reason="OVERLOADED", retry_after_ms=700)
    s.fault("Complete", "refuse", code="UNAVAILABLE", reason="DRAINING", retry_after_ms=400)
    id = s.new_id()
    advises(s.subject().process_one(id, EFFECT), "ACK")
    for method, wait in (("Claim", 0.7), ("Complete", 0.4)):
        first, second = s.proxy.of(method)
        check(second.at - first.at >= wait - 0.02, f"{method} was repeated after {second.at - first.at:.3f} s")
    held = s.new_id()
    s.fault("Claim", "refuse", reason="CONSUMER_DISABLED", retry_after_ms=30_000, id=held)
    outcome = s.subject().process_one(held, EFFECT)
    advises(outcome, "RETRY_LATER", "CONSUMER_DISABLED")
    check(outcome["delay"] >= 30, f"the delay is {outcome['delay']} s")
