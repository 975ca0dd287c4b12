"""Fingerprints, results and checkpoints: rules 20 to 23, and bad input."""

from __future__ import annotations

import hashlib

from scene import EFFECT, Scene, advises, check, same, scenario, step

BODY = '{"b" : 1.0,  "a": "\\u00e9"}\r\n'


@scenario(20)
def fingerprint_of_the_raw_body(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    advises(subject.process_one(id, EFFECT, body=BODY), "ACK")
    sent = s.proxy.of("Claim")[0].request.fingerprint
    check(sent == hashlib.sha256(BODY.encode()).digest(), f"the fingerprint is {sent.hex()!r}")
    advises(subject.process_one(id, EFFECT, body=BODY), "ACK")
    advises(subject.process_one(id, EFFECT, body='{"a": "\\u00e9", "b": 1.0}'), "DEAD_LETTER", "fingerprint_mismatch")
    s.effects(id)


@scenario(21)
def too_large_a_result(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    first = subject.process_one(id, EFFECT, step("return", bytes=20_000))
    advises(first, "ACK")
    check(first["result_dropped"], "the outcome does not say that the result is not stored")
    again = subject.process_one(id, EFFECT)
    advises(again, "ACK")
    check(again["replayed"] and again["result_dropped"] and again["result"] is None, f"the repeat is answered {again}")
    s.effects(id)


@scenario(22)
def too_large_a_request(s: Scene) -> None:
    id = s.new_id()
    s.fault("Complete", "refuse", code="INVALID_ARGUMENT", reason="TOO_LARGE")
    subject = s.subject()
    first = subject.process_one(id, EFFECT, step("return", result="x" * 1000))
    advises(first, "ACK")
    check(first["result_dropped"], "the outcome does not say that the result is not stored")
    second = s.proxy.of("Complete")[1].request
    check(second.result_left_out and not second.result, "the repeat is not without its result")
    advises(subject.process_one(id, EFFECT), "ACK")
    s.effects(id)


@scenario(21)
def checkpoints(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    subject.process_one(id, step("save", checkpoint="half"), step("raise", error="Retry", after=0))
    call = subject.begin(id, step("save", bytes=20_000), EFFECT)
    # Two attempts have started; the second one finds what the first one saved.
    subject.wait_for("started")
    check(subject.wait_for("started", call)["checkpoint"] == "half", "the checkpoint was not found")
    subject.wait_for("dropped", call)
    advises(subject.outcome(call), "ACK")
    s.effects(id)


@scenario(23)
def a_corrected_request(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    advises(subject.process_one(id, step("raise", error="GiveBack", unpin=True), body="wrong"), "RETRY_LATER")
    check(s.proxy.of("Release")[0].request.unpin_fingerprint, "the fingerprint was not unpinned")
    advises(subject.process_one(id, EFFECT, body="right"), "ACK")
    s.effects(id)


@scenario(5)
def bad_input_is_not_sent(s: Scene) -> None:
    subject = s.subject()
    # The message is at fault, and the ledger would say the same of it.
    for id in ("", "x" * 513, "\u00e9" * 257, "a\nb", "a\u0085b"):
        advises(subject.process_one(id, EFFECT), "DEAD_LETTER", "INVALID_FIELD")
        s.effects(id, 0)
    # The program is at fault.
    for consumer in ("", "x" * 129, "a\tb"):
        subject.send("open", ledger="bad", endpoint=s.proxy.address, consumer=consumer)
        error = subject.wait_for("error", "open")
        check((error["error"], error["field"]) == ("InvalidField", "key.consumer"), f"{consumer!r} is answered {error}")
    check(not s.proxy.calls, "it was sent")
    for id in ("x" * 512, "a b" * 9):
        advises(subject.process_one(f"{id[:-8]}{s.new_id()[-8:]}", EFFECT), "ACK")


@scenario(3)
def a_result_that_is_none(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    advises(subject.process_one(id, EFFECT), "ACK")
    again = subject.process_one(id, EFFECT)
    check(again["replayed"] and again["result"] == "" and not again["result_dropped"], f"the repeat is answered {again}")
    same(s.proxy.of("Complete"), 1)
