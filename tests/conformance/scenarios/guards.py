"""The guard of each package: an effect in a database of the consumer's own, once."""

from __future__ import annotations

from guard_places import places, receipts
from scene import EFFECT, Scene, advises, check, scenario
from subject import Subject


def _guarded(s: Scene, url: str) -> Subject:
    new = s.program("guard", {"DATABASE_URL": url})
    new.open(s.proxy.address, "effects")
    return new


def _windows(s: Scene, url: str) -> None:
    """A consumer is killed amid its transaction, and after its commit; and a zombie's transaction meets an heir's."""
    amid, after, late = s.new_id(), s.new_id(), s.new_id()
    first = _guarded(s, url)
    first.keep_effects = True
    first.begin(amid, EFFECT)
    first.wait_for("effect")
    first.kill()
    second = _guarded(s, url)
    s.fault("Complete", "swallow", id=after, before=second.kill)
    second.begin(after, EFFECT)
    second.process.wait(30)
    heir = _guarded(s, url)
    for id in (amid, after):
        advises(heir.outcome(heir.begin(id, EFFECT, wait=8)), "ACK")
    zombie = _guarded(s, url)
    zombie.keep_effects = True
    stopped = zombie.begin(late, EFFECT)
    effect = zombie.wait_for("effect")
    zombie.stop_still()
    # The zombie's row is not committed: the heir waits for it, not for ever, and leaves its claim open.
    held = heir.outcome(heir.begin(late, EFFECT, wait=8))
    advises(held, "RETRY_LATER")
    check(held["effect_unknown"] and held["reason"].endswith("of the database"), f"the outcome is {held}")
    check(not s.proxy.of("Fail"), "an effect that may happen was reported as failed")
    zombie.signal(18)
    zombie.take_effect(effect)
    check(zombie.outcome(stopped)["reason"] == "LEASE_LOST", "the zombie's report was not fenced")
    advises(heir.outcome(heir.begin(late, EFFECT, wait=8)), "ACK")
    for id in (amid, after, late):
        found = receipts(url, id)
        result = heir.outcome(heir.begin(id, EFFECT))["result"]
        check(found == [result], f"{id} has the payments {found}, and the ledger says {result}")


@scenario(11, 12, needs="guard")
def guarded_effects(s: Scene) -> None:
    with places(s.folder) as found:
        for place in found:
            _windows(s, place.make("shop"))
