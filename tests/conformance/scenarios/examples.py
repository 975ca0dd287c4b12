"""The first example of each package's README, as it stands there: a right consumer in at most 20 lines."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

from scene import EFFECT, Scene, advises, check, scenario
from subject import Event, Subject

CONSUMER = "payments"


def broker_gets(consumer: Subject, call: str, advice: str) -> Event:
    """What the consumer has done with a message of the broker."""
    outcome = consumer.outcome(call)
    advises(outcome, advice)
    return outcome


@scenario(7, 10, 20, needs="example")
def first_example(s: Scene) -> None:
    consumer, id = s.consumer(), s.new_id()
    broker_gets(consumer, consumer.deliver(id), "ACK")
    broker_gets(consumer, consumer.deliver(id), "ACK")
    s.effects(id)
    held = s.new_id()
    s.rival(held, CONSUMER)
    outcome = broker_gets(consumer, consumer.deliver(held), "RETRY_LATER")
    check(outcome["delay"] > 0.5, f"it is delivered again after {outcome['delay']} s")
    broker_gets(consumer, consumer.deliver("x" * 600), "DEAD_LETTER")
    s.effects(held, 0)


@scenario(18, 19, needs="example")
def first_example_stops(s: Scene) -> None:
    consumer, id = s.consumer(), s.new_id()
    consumer.keep_effects = True
    call = consumer.deliver(id)
    effect = consumer.wait_for("effect")
    consumer.signal(signal.SIGTERM)
    consumer.take_effect(effect)
    broker_gets(consumer, call, "ACK")
    check(consumer.process.wait(20) == 0, f"the exit code is {consumer.process.returncode}")
    check(s.state(id, CONSUMER) == "COMPLETED", s.state(id, CONSUMER))
    s.effects(id)
    hasty = s.consumer()
    hasty.keep_effects = True
    hasty.deliver(s.new_id())
    hasty.wait_for("effect")
    # Two signals that are sent together may arrive as one.
    for _ in range(20):
        hasty.signal(signal.SIGTERM)
        if hasty.ends_within(0.5):
            break
    check(hasty.process.poll() not in (None, 0), f"after signals its exit code is {hasty.process.poll()}")


def _killed(s: Scene, method: str, do: str, hook: str) -> str:
    id = s.new_id()
    consumer: list[Subject] = []
    hooks: dict[str, Any] = {hook: lambda: consumer[0].kill()}
    s.fault(method, do, id=id, **hooks)
    consumer.append(s.consumer())
    consumer[0].deliver(id)
    consumer[0].process.wait(30)
    return id


@scenario(1, 11, 13, needs="example")
def first_example_is_killed(s: Scene) -> None:
    ids = [_killed(s, "Claim", "swallow", "before"), _killed(s, "Claim", "pass", "then"),
           _killed(s, "Complete", "swallow", "before"), _killed(s, "Complete", "pass", "then")]
    heir = s.consumer()
    for id in ids:
        for _ in range(20):
            outcome = heir.outcome(heir.deliver(id))
            if outcome["advice"] == "ACK":
                break
            s.broker_waits(outcome["delay"])
        advises(outcome, "ACK")
        check(s.state(id, CONSUMER) == "COMPLETED", s.state(id, CONSUMER))
        # The provider deduplicates by the key, and has one effect, however often it was asked.
        check(s.sink.count("keyed", id) == 1, f"the provider has {s.sink.count('keyed', id)} effects")


@scenario(3)
def proxy_by_itself(s: Scene) -> None:
    """The proxy as a program of its own, as users of a package run it before their consumer."""
    script = s.folder / "faults.json"
    script.write_text(json.dumps([{"method": "Complete", "do": "lose"}, {"method": "Claim", "do": "delay", "seconds": 0.1}]))
    program = [sys.executable, str(pathlib.Path(__file__).resolve().parents[1] / "proxy.py"),
               "--ledger", s.ledger, "--script", str(script)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as proxy:
        try:
            assert proxy.stdout
            id = s.new_id()
            advises(s.subject(endpoint=json.loads(proxy.stdout.readline())["listen"]).process_one(id, EFFECT), "ACK")
            lines = (json.loads(line) for line in iter(proxy.stdout.readline, ""))
            # On a busy machine the lease of a second is renewed meanwhile.
            seen = list(itertools.islice((call for call in lines if call["method"] != "Renew"), 3))
        finally:
            proxy.kill()
    check([call["method"] for call in seen] == ["Claim", "Complete", "Complete"], f"it has seen {seen}")
    check(all(call["id"] == id and 0 < call["deadline"] < 30 for call in seen), f"it has seen {seen}")
    s.effects(id)


@scenario(needs="own")
def forms_of_the_language(s: Scene) -> None:
    s.fault("Renew", "refuse", code="ABORTED", reason="LEASE_LOST", times=-1, id_prefix="lost")
    environment = {**os.environ, **s.environment, "LEDGER_ENDPOINT": s.proxy.address}
    done = subprocess.run(s.more["own"], env=environment, capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode == 0, done.stderr[-500:])
    if "traced" in done.stdout:
        # On a busy machine the lease of a second is renewed meanwhile, by no call of the handler.
        calls = [call for call in s.proxy.calls if "traced" in call.request.key.id and call.method != "Renew"]
        sent = [call.metadata.get("traceparent", "") for call in calls]
        check(len(sent) == 2 and all("abc" in parent for parent in sent), f"traceparent is {sent}")


@scenario(needs="page")
def page_of_tests(s: Scene) -> None:
    """The test that docs/testing-consumers.md shows to users, as it stands there."""
    environment = {**os.environ, **s.environment, "LEDGER_PROGRAM": s.binary,
                   "LEDGER_CHECKOUT": str(pathlib.Path(__file__).resolve().parents[3])}
    done = subprocess.run(s.more["page"], env=environment, capture_output=True, text=True, timeout=120, check=False)
    check(done.returncode == 0, (done.stdout + done.stderr)[-500:])
