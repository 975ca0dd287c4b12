"""What the broker's message gets: rules 7 to 10."""

from __future__ import annotations

from scene import EFFECT, PAUSE, Scene, advises, check, scenario, step

PROCESS, ACK = 1, 2


@scenario(8, 9)
def unknown_verdict(s: Scene) -> None:
    subject = s.subject()
    for advice in (PROCESS, ACK, 0):
        id = s.new_id()
        s.fault("Claim", "answer", id=id, instead=True, unknown_verdict=True, advice=advice)
        advises(subject.process_one(id, EFFECT), "RETRY_LATER")
        s.effects(id, 0)
    sent = {call.method for call in s.proxy.calls}
    check(sent == {"Claim"}, f"without a grant {sent} were called")


@scenario(8, 9)
def unknown_advice(s: Scene) -> None:
    subject = s.subject()
    for advice in (99, 0, ACK):
        id = s.new_id()
        s.fault("Claim", "answer", id=id, advice=advice)
        advises(subject.process_one(id, EFFECT), "RETRY_LATER")
        s.effects(id, 0)
        check(len(s.proxy.of("Claim", id)) == 1, "a verdict was asked for again")


@scenario(7, 8)
def unknown_advice_of_a_settlement(s: Scene) -> None:
    subject = s.subject()
    for advice in (99, 0, 3):
        id = s.new_id()
        s.fault("Complete", "answer", id=id, advice=advice)
        advises(subject.process_one(id, EFFECT), "RETRY_LATER")
        s.effects(id)


@scenario(7)
def duplicates_are_acknowledged(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    advises(subject.process_one(id, EFFECT, step("return", result="paid")), "ACK")
    again = subject.process_one(id, EFFECT)
    advises(again, "ACK")
    check(again["replayed"] and again["result"] == "paid", f"the repeat is answered {again}")
    s.effects(id)


@scenario(7)
def dead_letters(s: Scene) -> None:
    subject = s.subject()
    for error in ("Terminal", "Park"):
        id = s.new_id()
        advises(subject.process_one(id, step("raise", error=error, text="no such account")), "DEAD_LETTER")
        check(s.proxy.of("Fail", id)[0].request.error == "no such account", "the reason is not that of the handler")
        advises(subject.process_one(id, EFFECT), "DEAD_LETTER", "failed" if error == "Terminal" else "parked")
        s.effects(id, 0)


@scenario(10)
def hot_loop(s: Scene) -> None:
    id = s.new_id()
    # It dies: its lease ends by itself.
    check(s.rival(id).WhichOneof("verdict") == "acquired", "the rival was not granted the key")
    subject = s.subject()
    for _ in range(20):
        outcome = subject.process_one(id, EFFECT)
        if outcome["advice"] == "ACK":
            break
        advises(outcome, "RETRY_LATER")
        s.broker_waits(outcome["delay"])
    answers = [(answer, at) for call, answer, at in s.proxy.answers if call.method == "Claim"]
    calls = s.proxy.of("Claim")
    for (answer, at), following in zip(answers, calls[1:], strict=False):
        due = at + answer.retry_after.ToNanoseconds() / 1e9
        check(following.at >= due - 0.02, f"claimed {due - following.at:.3f} s before it was due")
    check(len(calls) <= 5, f"{len(calls)} Claims of a message that was held for a lease")
    s.effects(id)


@scenario(7, 10)
def held_by_another(s: Scene) -> None:
    id = s.new_id()
    subject, other = s.subject(), s.subject()
    held = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", held)
    advises(other.process_one(id, EFFECT), "RETRY_LATER", "in_progress")
    waiting = other.begin(id, EFFECT, wait=8)
    s.proxy.wait_for("Claim", 3)
    subject.send("go", call=held)
    advises(subject.outcome(held), "ACK")
    answered = other.outcome(waiting)
    advises(answered, "ACK")
    check(answered["replayed"], f"the one that waited was answered {answered}")
    s.effects(id)
