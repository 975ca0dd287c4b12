"""kill -9 in each window, and servers that are replaced: what no package can prevent, and must survive."""

from __future__ import annotations

import random

from scene import EFFECT, PAUSE, Scene, advises, check, scenario, step
from subject import Subject


def _redelivered(s: Scene, id: str, plain: int = 1) -> None:
    """The broker delivers again, to another process, which waits for the lease of the one that died."""
    advises(s.subject().process_one(id, EFFECT, step("return", result="paid"), wait=8), "ACK")
    check(s.state(id) == "COMPLETED", s.state(id))
    s.effects(id, 1, plain)


def _killed_at(s: Scene, method: str, do: str, hook: str) -> str:
    """A subject that is killed where the proxy has reached this point of this call."""
    id = s.new_id()
    subject: list[Subject] = []
    s.fault(method, do, **{hook: lambda: subject[0].kill()})
    subject.append(s.subject())
    subject[0].begin(id, EFFECT, step("return", result="paid"))
    subject[0].process.wait(30)
    return id


@scenario(1)
def killed_before_the_claim(s: Scene) -> None:
    _redelivered(s, _killed_at(s, "Claim", "swallow", "before"))


@scenario(1)
def killed_after_the_claim(s: Scene) -> None:
    _redelivered(s, _killed_at(s, "Claim", "pass", "then"))


@scenario(11)
def killed_after_the_effect(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    subject.keep_effects = True
    effect = subject.wait_for("effect", subject.begin(id, EFFECT))
    s.sink.effect(id, int(effect["token"]), effect["idempotency_key"])
    subject.kill()
    _redelivered(s, id, plain=2)


@scenario(13)
def killed_after_complete(s: Scene) -> None:
    _redelivered(s, _killed_at(s, "Complete", "pass", "then"))


@scenario(7)
def killed_after_the_acknowledgement(s: Scene) -> None:
    id = s.new_id()
    subject = s.subject()
    advises(subject.process_one(id, EFFECT), "ACK")
    subject.kill()
    _redelivered(s, id)


def _scripted(s: Scene, rng: random.Random, ids: list[str]) -> None:
    """Faults of each kind, for some calls of some messages."""
    for id in rng.sample(ids, len(ids) // 2):
        method = rng.choice(("Claim", "Complete", "Renew"))
        do = rng.choice(("lose", "reset", "unavailable", "hang", "swallow", "delay"))
        s.fault(method, do, id=id, times=rng.randint(1, 2), seconds=rng.random() * 2)


@scenario(1, 3, 4, 11)
def storm(s: Scene) -> None:
    """Every message is delivered until it is acknowledged, by consumers of which one is killed and one stands still."""
    seed = random.randrange(2**31)
    rng = random.Random(seed)
    ids = [s.new_id() for _ in range(40)]
    _scripted(s, rng, ids)
    victim, zombie, heir = s.subject(), s.subject(), s.subject()
    for subject in (victim, zombie):
        for id in rng.sample(ids, len(ids) // 2):
            subject.begin(id, EFFECT, step("return", result=id))
    s.proxy.wait_for("Claim", 20)
    zombie.stop_still()
    victim.kill()
    left = list(ids)
    for _ in range(20):
        calls = {id: heir.begin(id, EFFECT, step("return", result=id), wait=5) for id in left}
        outcomes = {id: heir.outcome(call, seconds=60) for id, call in calls.items()}
        left = [id for id in left if outcomes[id]["advice"] != "ACK"]
        lettered = [id for id in left if outcomes[id]["advice"] != "RETRY_LATER"]
        check(not lettered, f"with the seed {seed} {lettered} were dead-lettered")
        if not left:
            break
    zombie.signal(18)
    check(not left, f"with the seed {seed} {left} are not done")
    for id in ids:
        again = heir.process_one(id, EFFECT)
        check(again["replayed"] and again["result"] == id, f"with the seed {seed} {id} is answered {again}")
        keyed, fenced = s.sink.count("keyed", id), s.sink.count("fenced", id)
        check((keyed, fenced) == (1, 1), f"with the seed {seed} {id} has {keyed} and {fenced} effects")


@scenario(3, 4)
def server_replaced_under_load(s: Scene) -> None:
    server = s.server()
    subject = s.subject(endpoint=server.address, lease=10)
    ids = [s.new_id() for _ in range(60)]
    paused = [s.new_id() for _ in range(4)]
    held = [subject.begin(id, PAUSE, EFFECT) for id in paused]
    for call in held:
        subject.wait_for("paused", call)
    for at in range(0, len(ids), 20):
        calls = [(id, subject.begin(id, EFFECT, step("return", result=id))) for id in ids[at:at + 20]]
        server.kill()
        server.start()
        if at == 20:
            for call in held:
                subject.send("go", call=call)
        for _, call in calls:
            advises(subject.outcome(call), "ACK")
    for call in held:
        advises(subject.outcome(call), "ACK")
    for id in ids:
        again = subject.process_one(id, EFFECT)
        check(again["replayed"] and again["result"] == id, f"{id} is answered {again}")
    for id in [*ids, *paused]:
        s.effects(id)
