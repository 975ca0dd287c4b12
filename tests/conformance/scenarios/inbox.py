"""The inbox: receivers that store messages, and workers that take them by ClaimNext."""

from __future__ import annotations

import signal
import threading
import time

from scene import EFFECT, LEASE, Scene, advises, check, same, scenario, step
from subject import Event, Subject

DIE = step("die")


def _stored(s: Scene, subject: Subject, count: int, **fields: object) -> list[str]:
    """Stores new messages; returns their ids."""
    ids = [s.new_id() for _ in range(count)]
    for id in ids:
        advises(subject.store(id, **fields), "ACK")
    return ids


def _handed(s: Scene) -> list[str]:
    """The ids of the messages that the ledger has handed out, in their order."""
    return [handed.key.id for call, answer, _ in list(s.proxy.answers) if call.method == "ClaimNext"
            for handed in answer.messages]


@scenario(3, 4, 7, needs="inbox")
def lost_answer_of_store(s: Scene) -> None:
    s.fault("Store", "lose")
    subject = s.subject(s.inbox())
    [id] = _stored(s, subject, 1, payload="order", headers={"kind": "paid"})
    same(s.proxy.of("Store", id), 2)
    check(subject.store(id, payload="order")["replayed"], "a message that is stored again is not known")
    lost = s.new_id()
    s.fault("Store", "reset", times=-1, id=lost)
    advises(subject.store(lost), "RETRY_LATER", "NO_ANSWER")
    same(s.proxy.of("Store", lost), len(s.proxy.of("Store", lost)))
    subject.work(EFFECT)
    handed = subject.wait_for("handed", id)
    check((handed["payload"], handed["headers"]) == ("order", {"kind": "paid"}), f"it was handed {handed}")
    s.settled(id, s.proxy.of("Store")[0].request.key.consumer)
    s.effects(id)
    s.effects(lost, 0)


@scenario(5, 8, 10, needs="inbox")
def refused_stores(s: Scene) -> None:
    off = s.subject()
    advises(off.store(s.new_id()), "RETRY_LATER", "INBOX_OFF")
    subject = s.subject(s.inbox())
    full, odd, large = s.new_id(), s.new_id(), s.new_id()
    s.fault("Store", "refuse", code="RESOURCE_EXHAUSTED", reason="BACKLOG_FULL", retry_after_ms=30_000, id=full)
    outcome = subject.store(full)
    advises(outcome, "RETRY_LATER", "BACKLOG_FULL")
    check(outcome["delay"] >= 30, f"the delay is {outcome['delay']} s")
    s.fault("Store", "answer", unknown_verdict=True, advice=2, id=odd)
    advises(subject.store(odd), "RETRY_LATER")
    advises(subject.store(large, bytes=256 * 1024 + 1), "DEAD_LETTER", "INVALID_FIELD")
    check(not s.proxy.of("Store", large), "a message beyond its bound was sent")
    [id] = _stored(s, subject, 1, payload="one")
    advises(subject.store(id, payload="another"), "DEAD_LETTER", "fingerprint_mismatch")


@scenario(1, 3, 4, needs="inbox")
def lost_answer_of_claim_next(s: Scene) -> None:
    consumer = s.inbox()
    subject = s.subject(consumer)
    ids = _stored(s, subject, 3)
    s.fault("ClaimNext", "lose")
    subject.work(EFFECT, concurrency=3)
    for id in ids:
        check(s.settled(id, consumer).attempt == 1, "a lost handout has cost an attempt")
        s.effects(id)
    calls = s.proxy.of("ClaimNext")
    same(calls[:2], 2)
    answers = [answer for call, answer, _ in s.proxy.answers if call.method == "ClaimNext"]
    check(all(handed.acquired.replayed for handed in answers[1].messages), f"the repeat was answered {answers[1]}")
    # Polls after it: each has its own claim_id.
    calls = s.proxy.wait_for("ClaimNext", len(calls) + 2)
    check(len({call.request.claim_id for call in calls}) == len(calls) - 1, "two calls have one claim_id")
    # A repeated handout names what is left of its lease, and polls wait for a part of the last lease: they are answered all the same.
    [later] = _stored(s, subject, 1)
    s.settled(later, consumer)
    subject.close_client()


@scenario(7, 13, needs="inbox")
def worker_killed_with_a_handout(s: Scene) -> None:
    consumer = s.inbox()
    victim = s.subject(consumer)
    victim.keep_effects = True
    ids = _stored(s, victim, 6)
    victim.work(EFFECT, concurrency=4)
    effects = [victim.wait_for("effect") for _ in range(4)]
    victim.take_effect(effects[0])
    s.settled(effects[0]["id"], consumer)
    victim.kill()
    s.subject(consumer).work(EFFECT, concurrency=4)
    for id in ids:
        found = s.settled(id, consumer)
        check(found.attempt <= 2, f"{id} took {found.attempt} attempts")
        s.effects(id)


@scenario(17, 18, 19, needs="inbox")
def worker_renews_and_releases_what_waits(s: Scene) -> None:
    consumer = s.inbox()
    subject = s.subject(consumer)
    # The first handlers of a process are slow; the time by which it sizes handouts falls by a tenth with each quick one.
    quick = _stored(s, subject, 40)
    held = [s.new_id() for _ in range(12)]
    subject.work(concurrency=2, steps_of={id: [EFFECT] for id in held})
    # On a busy machine it takes more than 40 of them, until a worker with two handlers asks for six messages.
    for _ in range(20):
        for id in quick:
            s.settled(id, consumer)
        if s.proxy.of("ClaimNext")[-1].request.max >= 6:
            break
        quick = _stored(s, subject, 20)
    subject.keep_effects = True
    for id in held:
        advises(subject.store(id), "ACK")
    effects = [subject.wait_for("effect") for _ in range(2)]
    # The handlers were quick: more messages are taken than handlers are free, and wait here beyond their leases.
    time.sleep(2.5 * LEASE)
    begun = {effect["id"] for effect in effects}
    waiting = [id for id in _handed(s) if id in held and id not in begun]
    check(bool(waiting), "no message waits for a handler")
    check(len(set(waiting)) == len(waiting), "a message that waited was handed out again")
    for id in waiting:
        check(s.rival(id, consumer).WhichOneof("verdict") == "in_progress", "a message that waited is not held")
    subject.send("close", ledger="l", grace=20)
    for id in waiting:
        s.settled(id, consumer, "RECEIVED", seconds=10)
    for effect in effects:
        subject.take_effect(effect)
    check(subject.wait_for("closed")["ended"], "the client was closed while a handler ran")
    check(subject.wait_for("worked")["ended"], "the worker ended while a handler ran")
    check({call.request.key.id for call in s.proxy.of("Release")} == set(waiting), "not the waiting ones were released")
    for id in begun:
        check(s.settled(id, consumer).attempt == 1, "a running message took another attempt")
        s.effects(id)


@scenario(11, 17, needs="inbox")
def one_handler_a_message(s: Scene) -> None:
    consumer = s.inbox()
    subject = s.subject(consumer)
    subject.keep_effects = True
    [id] = _stored(s, subject, 1)
    lost = s.fault("Renew", "reset", times=-1, id=id)
    subject.work(EFFECT, concurrency=3)
    zombie = subject.wait_for("effect", id)
    until = time.monotonic() + 20
    while _handed(s).count(id) < 2:  # Its lease ends, and the ledger hands it out to the same worker.
        check(time.monotonic() < until, "the message was not handed out again")
        time.sleep(0.05)
    lost.times = 0
    time.sleep(0.5)
    check(not subject.seen("effect", id), "one message has two handlers")
    subject.take_effect(zombie)
    heir = subject.wait_for("effect", id)
    check(int(heir["token"]) > int(zombie["token"]), "the second handler has the first one's token")
    subject.take_effect(heir)
    check(s.settled(id, consumer).attempt == 2, "the second attempt did not complete it")
    s.effects(id, 1, 2)


@scenario(7, 19, needs="inbox_example")
def inbox_example(s: Scene) -> None:
    """The example of the package's README, as it stands there: a receiver and a worker in one process."""
    consumer = s.inbox("payments")
    program, id = s.consumer("inbox_example"), s.new_id()
    advises(program.outcome(program.deliver(id)), "ACK")
    s.settled(id, consumer)
    advises(program.outcome(program.deliver(id)), "ACK")
    advises(program.outcome(program.deliver("x" * 600)), "DEAD_LETTER")
    s.effects(id)
    program.signal(signal.SIGTERM)
    check(program.process.wait(20) == 0, f"the exit code is {program.process.returncode}")


@scenario(17, needs="inbox")
def poison_message(s: Scene) -> None:
    """It kills each worker that runs it. Its neighbours, and those that run when it arrives, lose two attempts at most."""
    consumer = s.inbox()
    receiver = s.subject(consumer)
    ids = _stored(s, receiver, 3)
    [poison] = _stored(s, receiver, 1)
    ids += _stored(s, receiver, 2)
    slow: list[str] = []

    def worker() -> Subject:
        new = s.subject(consumer)
        new.keep_effects = True
        new.work(EFFECT, concurrency=4, steps_of={poison: [DIE]})
        return new

    def effects(subject: Subject) -> None:
        """A message that is stored late has a handler that runs for longer than a lease and its grace."""
        def takes(event: Event) -> None:
            threading.Timer(3.0 if event["id"] in slow else 0.0, subject.take_effect, (event,)).start()

        while subject.process.poll() is None:
            try:
                takes(subject.wait_for("effect", seconds=1.0))
            except AssertionError:
                continue

    deaths = 0
    # From the third attempt on it runs alone; the late message must lose none of its attempts to the later deaths.
    while deaths < 8:
        if deaths in (2, 3):
            slow += _stored(s, receiver, 1)
        running = worker()
        thread = threading.Thread(target=effects, args=(running,), daemon=True)
        thread.start()
        check(running.ends_within(30), f"the poison message has not killed worker {deaths}")
        deaths += 1
    heir = s.subject(consumer)
    heir.work(EFFECT, concurrency=4, steps_of={poison: [step("raise", error="Park")]})
    s.settled(poison, consumer, "PARKED")
    for id in [*ids, *slow]:
        attempts = s.settled(id, consumer).attempt
        check(attempts <= 3, f"{id} took {attempts} attempts: the poison message has taken more than two of them")
        check((s.sink.count("fenced", id), s.sink.count("keyed", id)) == (1, 1), f"{id} has not one effect")
