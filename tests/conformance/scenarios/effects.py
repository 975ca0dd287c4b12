"""Tokens, doubtful effects, announcements and renewals: rules 11 to 17."""

from __future__ import annotations

from scene import ANNOUNCE, EFFECT, GRACE, LEASE, PAUSE, Scene, advises, check, same, scenario, step
from subject import Event, Subject


@scenario(1)
def two_deliveries_in_one_process(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    first = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", first)
    advises(subject.process_one(id, EFFECT), "RETRY_LATER", "in_progress")
    subject.send("go", call=first)
    advises(subject.outcome(first), "ACK")
    s.effects(id)


@scenario(11)
def token_and_key_reach_the_effect(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    call = subject.begin(id, EFFECT, step("raise", error="Retry", after=0))
    first = subject.wait_for("started", call)
    advises(subject.outcome(call), "RETRY_LATER")
    call = subject.begin(id, EFFECT)
    second = subject.wait_for("started", call)
    advises(subject.outcome(call), "ACK")
    granted = [answer.acquired for asked, answer, _ in s.proxy.answers if asked.method == "Claim"]
    for started, acquired in zip((first, second), granted, strict=True):
        found = (int(started["token"]), started["idempotency_key"], started["attempt"])
        check(found == (acquired.token, acquired.idempotency_key, acquired.attempt), f"the handler was given {found}")
    check(int(second["token"]) > int(first["token"]), "the token has not grown")
    check(second["idempotency_key"] == first["idempotency_key"], "the key is another one")
    s.effects(id, 1, plain=2)


@scenario(11)
def zombie_with_an_effect_in_flight(s: Scene) -> None:
    id = s.new_id()
    zombie, heir = s.subject(), s.subject()
    zombie.keep_effects = True
    call = zombie.begin(id, EFFECT)
    effect = zombie.wait_for("effect", call)
    zombie.stop_still()
    after = heir.begin(id, EFFECT, wait=8)
    started = heir.wait_for("started", after)
    check(started["effect_unknown"], "the heir does not know that there may have been an effect")
    advises(heir.outcome(after), "ACK")
    zombie.take_effect(effect)  # It arrives late, with the token of the zombie.
    zombie.signal(18)
    advises(zombie.outcome(call), "ACK", "LEASE_LOST")
    check(s.sink.count("refused", id) == 1, "the fence has not seen the older token")
    s.effects(id, 1, plain=2)


@scenario(11, 17)
def zombie_before_its_effect(s: Scene) -> None:
    id = s.new_id()
    zombie, heir = s.subject(), s.subject()
    call = zombie.begin(id, PAUSE, EFFECT)
    zombie.wait_for("paused", call)
    zombie.stop_still()
    advises(heir.process_one(id, EFFECT, wait=8), "ACK")
    zombie.signal(18)
    zombie.wait_for("lost", call)
    advises(zombie.outcome(call), "RETRY_LATER")
    s.effects(id)


@scenario(12)
def doubtful_settles_nothing(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    outcome = subject.process_one(id, EFFECT, step("raise", error="Doubtful"))
    advises(outcome, "RETRY_LATER")
    check(outcome["effect_unknown"], f"the outcome is {outcome}")
    check(not [call for call in s.proxy.calls if call.method in ("Fail", "Release", "Complete")], "it was settled")
    call = subject.begin(id, EFFECT, wait=8)
    check(subject.wait_for("started", call)["effect_unknown"], "the next attempt does not know of the doubt")
    advises(subject.outcome(call), "ACK")


@scenario(12)
def unexpected_error_parks(s: Scene) -> None:
    id = s.new_id()
    advises(s.subject().process_one(id, EFFECT, step("raise", error="Other", text="card 4111")), "DEAD_LETTER")
    failed = s.proxy.of("Fail")[0].request
    check(failed.kind == 3, f"the kind is {failed.kind}")
    check(failed.error and "4111" not in failed.error, f"the ledger was sent {failed.error!r}")
    check("4111" not in (s.folder / "subject.log").read_text(errors="replace"), "the text was logged")
    check(s.state(id) == "PARKED", s.state(id))


@scenario(12)
def retry_says_when(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    outcome = subject.process_one(id, step("raise", error="Retry", after=0.5))
    advises(outcome, "RETRY_LATER")
    check(abs(outcome["delay"] - 0.5) < 0.1, f"the delay is {outcome['delay']} s")
    advises(subject.process_one(id, EFFECT, wait=5), "ACK")
    s.effects(id)


@scenario(13)
def no_fail_after_complete(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    advises(subject.process_one(id, EFFECT, step("complete", result="paid"), step("raise", error="Other")), "ACK")
    check(s.state(id) == "COMPLETED", s.state(id))
    lost = s.new_id()
    s.fault("Complete", "refuse", reason="INTERNAL", code="INTERNAL", id=lost)
    advises(subject.process_one(lost, EFFECT, step("complete"), step("raise", error="Retry")), "RETRY_LATER")
    check(not s.proxy.of("Fail"), "an effect that is done was reported as failed")


@scenario(14)
def announced_before(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject("parking")
    call = subject.begin(id, ANNOUNCE, step("raise", error="Retry", after=0))
    advises(subject.outcome(call), "RETRY_LATER")
    subject.wait_for("started", call)
    outcome = subject.process_one(id, EFFECT)
    advises(outcome, "DEAD_LETTER", "PRIOR_EFFECT_STARTED")
    check(outcome["effect_unknown"] and not subject.seen("started"), "the handler ran")
    check(s.state(id, "parking") == "PARKED", s.state(id, "parking"))
    s.effects(id, 0)
    repeated = s.new_id()
    subject.open(s.proxy.address, "parking", ledger="repeating", repeat_announced=True)
    subject.process_one(repeated, ANNOUNCE, step("raise", error="Retry", after=0), ledger="repeating")
    advises(subject.process_one(repeated, EFFECT, ledger="repeating"), "ACK")
    s.effects(repeated)


@scenario(15)
def announcement_that_protects_nothing(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject("effects")
    outcome = subject.process_one(id, ANNOUNCE, EFFECT)
    advises(outcome, "RETRY_LATER", "NOT_PROTECTED")
    check(outcome["delay"] >= 1, f"it is delivered again after {outcome['delay']} s")
    check(not [call for call in s.proxy.of("Renew") if call.request.effect_started], "the effect was announced")
    check(s.state(id) == "RECEIVED", s.state(id))
    s.effects(id, 0)


@scenario(16)
def announcement_is_waited_for(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject("parking")
    held = s.fault("Renew", "hold")
    call = subject.begin(id, ANNOUNCE, EFFECT)
    check(held.reached.wait(20), "the effect was not announced")
    check(not subject.seen("effect", call), "the effect began before the announcement was confirmed")
    s.effects(id, 0)
    held.release()
    advises(subject.outcome(call), "ACK")
    s.effects(id)
    refused = s.new_id()
    s.fault("Renew", "reset", times=-1, id=refused)
    advises(subject.process_one(refused, ANNOUNCE, EFFECT), "RETRY_LATER")
    s.effects(refused, 0)


@scenario(14, 16)
def park_if_started(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject("parking")
    subject.keep_effects = True
    call = subject.begin(id, ANNOUNCE, EFFECT)
    subject.wait_for("effect", call)
    subject.kill()
    s.rival_after_lease(id, "parking")
    advises(s.subject("parking").process_one(id, EFFECT), "DEAD_LETTER", "parked")
    s.effects(id, 0)


def _paused(s: Scene, id: str) -> tuple[Subject, str]:
    subject = s.subject()
    call = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", call)
    return subject, call


@scenario(17)
def long_handler_is_renewed(s: Scene) -> None:
    id = s.new_id()
    subject, call = _paused(s, id)
    renewals = s.proxy.wait_for("Renew", 6)
    claimed = s.proxy.of("Claim")[0].at
    check(renewals[0].at - claimed < LEASE * 0.6, f"first renewed after {renewals[0].at - claimed:.2f} s")
    check(renewals[-1].at - claimed > LEASE + GRACE, "renewed more often than at a third of the lease")
    check(s.rival(id).WhichOneof("verdict") == "in_progress", "another one was granted the key")
    subject.send("go", call=call)
    advises(subject.outcome(call), "ACK")
    check(subject.wait_for("started", call)["attempt"] == 1, "it took a second attempt")
    s.effects(id)


@scenario(17)
def lost_lease_cancels_the_handler(s: Scene) -> None:
    id = s.new_id()
    s.fault("Renew", "refuse", code="ABORTED", reason="LEASE_LOST", id=id)
    subject, call = _paused(s, id)
    check(subject.wait_for("lost", call)["reason"] == "LEASE_LOST", "the handler does not know why")
    advises(subject.outcome(call), "RETRY_LATER", "LEASE_LOST")
    s.effects(id, 0)
    silent = s.new_id()
    s.fault("Renew", "reset", times=-1, id=silent)
    call = subject.begin(silent, PAUSE, EFFECT)
    lost: Event = subject.wait_for("lost", call)
    check(lost["reason"] == "LEASE_OVER", f"the reason is {lost['reason']}")
    advises(subject.outcome(call), "RETRY_LATER", "LEASE_OVER")
    check(not s.proxy.of("Fail"), "a claim that was lost was failed")
    s.effects(silent, 0)


@scenario(17)
def nothing_is_renewed_after_the_end(s: Scene) -> None:
    subject = s.subject()
    first = s.new_id()
    advises(subject.process_one(first, EFFECT), "ACK")
    # The first handler of a process is slow: it may have been renewed while it ran.
    before = len(s.proxy.of("Renew", first))
    second = s.new_id()
    call = subject.begin(second, PAUSE, EFFECT)
    s.proxy.wait_for("Renew", 3, second)
    check(len(s.proxy.of("Renew", first)) == before, "a claim that is settled was renewed")
    subject.send("go", call=call)
    advises(subject.outcome(call), "ACK")


@scenario(13, 17)
def completed_within_the_handler(s: Scene) -> None:
    id, other = s.new_id(), s.new_id()
    subject = s.subject()
    call = subject.begin(id, EFFECT, step("complete", result="paid"), PAUSE)
    subject.wait_for("paused", call)
    held = subject.begin(other, PAUSE, EFFECT)
    s.proxy.wait_for("Renew", 3, other)
    check(not subject.seen("lost", call), "a claim that is completed was lost")
    completed = next(at for one, _, at in list(s.proxy.answers) if one.method == "Complete" and one.request.key.id == id)
    # One may be in flight until the client has the answer.
    late = [renewal for renewal in s.proxy.of("Renew", id) if renewal.at > completed + 0.2]
    check(not late, "a claim that is completed was renewed")
    for each in (call, held):
        subject.send("go", call=each)
        advises(subject.outcome(each), "ACK")
    check(subject.process_one(id, EFFECT)["result"] == "paid", "the result is another one")
    s.effects(id)


@scenario(4, 17)
def slow_renewals_of_others(s: Scene) -> None:
    stuck, id = s.new_id(), s.new_id()
    s.fault("Renew", "swallow", times=-1, id=stuck)
    subject = s.subject()
    lost = subject.begin(stuck, PAUSE)
    kept = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("lost", lost)
    same(s.proxy.of("Claim", id), 1)
    check(s.rival(id).WhichOneof("verdict") == "in_progress", "a renewal waited for another one")
    subject.send("go", call=kept)
    advises(subject.outcome(kept), "ACK")
    s.effects(id)
