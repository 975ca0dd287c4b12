"""How a process stops, and how it forks: rules 18 and 19."""

from __future__ import annotations

import signal
import time

from scene import EFFECT, PAUSE, Scene, advises, check, scenario


@scenario(18)
def sigterm_amid_an_effect(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    subject.send("shutdown", grace=20)
    call = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", call)
    subject.signal(signal.SIGTERM)
    subject.wait_for("stopping")
    subject.send("go", call=call)
    advises(subject.outcome(call), "ACK")
    check(subject.process.wait(20) == 0, f"the exit code is {subject.process.returncode}")
    check(s.state(id) == "COMPLETED", s.state(id))
    s.effects(id)


@scenario(19)
def sigterm_has_a_bound(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    subject.send("shutdown", grace=1)
    call = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", call)
    began = time.monotonic()
    subject.signal(signal.SIGTERM)
    code = subject.process.wait(20)
    check(code != 0, "a process that has left an effect behind has exited with 0")
    check(0.8 <= time.monotonic() - began < 8, f"it took {time.monotonic() - began:.1f} s")
    s.effects(id, 0)


@scenario(19)
def second_signal_ends_it(s: Scene) -> None:
    subject = s.subject()
    subject.send("shutdown", grace=60)
    call = subject.begin(s.new_id(), PAUSE, EFFECT)
    subject.wait_for("paused", call)
    subject.signal(signal.SIGTERM)
    subject.wait_for("stopping")
    subject.signal(signal.SIGTERM)
    check(subject.process.wait(20) != 0, "the second signal was taken for success")


@scenario(18)
def close_gives_back_what_has_not_begun(s: Scene) -> None:
    id = s.new_id()
    held = s.fault("Claim", "hold")
    subject = s.subject()
    call = subject.begin(id, EFFECT)
    check(held.reached.wait(20), "it was not claimed")
    subject.send("close", ledger="l", grace=20)
    subject.wait_for("closing")
    refused = subject.begin(s.new_id(), EFFECT)
    check(subject.wait_for("error", refused)["error"] == "Closed", "a delivery was taken while the client closes")
    check(len(s.proxy.of("Claim")) == 1, "it was claimed")
    held.release()
    advises(subject.outcome(call), "RETRY_LATER", "CLOSING")
    check(subject.wait_for("closed")["ended"], "the close did not wait")
    check(s.state(id) == "RECEIVED", s.state(id))
    s.effects(id, 0)
    refused = subject.begin(s.new_id(), EFFECT)
    check(subject.wait_for("error", refused)["error"] == "Closed", "a delivery was taken after the close")


@scenario(18)
def close_waits_for_effects(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    call = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", call)
    subject.send("close", ledger="l", grace=0.2)
    check(not subject.wait_for("closed")["ended"], "the close reported an end that was none")
    subject.send("go", call=call)
    advises(subject.outcome(call), "ACK")
    check(s.state(id) == "COMPLETED", s.state(id))
    s.effects(id)


@scenario(18, needs="cancels")
def cancelled_caller(s: Scene) -> None:
    id, waiting = s.new_id(), s.new_id()
    subject = s.subject()
    call = subject.begin(id, PAUSE, EFFECT)
    subject.wait_for("paused", call)
    subject.send("cancel", call=call)
    subject.wait_for("cancelled", call)
    subject.send("go", call=call)
    s.proxy.wait_for("Complete", 1)
    held = s.fault("Claim", "hold", id=waiting)
    call = subject.begin(waiting, EFFECT)
    check(held.reached.wait(20), "it was not claimed")
    subject.send("cancel", call=call)
    subject.wait_for("cancelled", call)
    held.release()
    s.proxy.wait_for("Release", 1, waiting)
    subject.send("close", ledger="l", grace=20)
    check(subject.wait_for("closed")["ended"], "the close did not wait for what the callers have left")
    check(s.state(id) == "COMPLETED", s.state(id))
    check(s.state(waiting) == "RECEIVED", f"{s.state(waiting)}: what no handler has begun was not given back")
    s.effects(id)
    s.effects(waiting, 0)


@scenario(1, needs="forks")
def prefork(s: Scene) -> None:
    for used_before in (False, True):
        subject = s.subject()
        if used_before:
            advises(subject.process_one(s.new_id(), EFFECT), "ACK")
        ids = [s.new_id() for _ in range(3)]
        subject.send("prefork", ledger="l", ids=ids)
        if used_before and not subject.ready["forks_after_use"]:
            # What cannot work is an error, rather than a wait for ever.
            for id in ids:
                check(subject.wait_for("error", f"fork-{id}")["error"] == "ForkedTooLate", "it did not say why")
            continue
        for id in ids:
            advises(subject.wait_for("outcome", f"fork-{id}"), "ACK")
            check(s.state(id) == "COMPLETED", s.state(id))
        owners = {call.request.owner for call in s.proxy.of("Claim") if call.request.key.id in ids}
        check(len(owners) == 3, f"the processes call themselves {owners}")
        advises(subject.process_one(s.new_id(), EFFECT), "ACK")
        subject.end()
