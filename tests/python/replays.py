"""The replays of docs/replays.md, each command as it stands there, amid consumers whose effects are counted."""

import subprocess

from recipes import Day, ids
from running import Running, options


def typed(day, *arguments):
    """A command that the page leaves to the reader."""
    subprocess.run([day.binary, *arguments], env=day.environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)


def effects(day, messages, number):
    wrong = {message: day.effects.done[message] for message in messages if day.effects.done[message] != number}
    assert not wrong, f"effects, where each message should have {number}: {wrong}"


def rebuild(day):
    """A projection is rebuilt: every message once more, whatever the broker repeats, and nothing live is touched."""
    view, run = "orders-view", "2026-11-view-v2"
    old, poison, new = ids("view", 20), "view-poison", ids("view-new", 5)
    assert all(day.deliver(message, view) == "done" for message in old)
    assert day.deliver(old[0], view, replay_run=run) == "FAILED_PRECONDITION", "before the run is created"
    day.step("rebuild-begin")
    for message in old:
        assert day.deliver(message, view, replay_run=run) == "done", message
        assert day.deliver(message, view, replay_run=run) == "completed", message
    for _ in range(2):
        assert day.deliver(poison, view, broken=True, replay_run=run) == "failed"
    assert day.deliver(poison, view, replay_run=run) == "parked"
    assert all(day.deliver(message, view) == "done" for message in new), "live messages go on"
    told = day.step("rebuild-look")
    counted = f"{len(old)} COMPLETED"
    assert counted in told and "1 PARKED" in told and poison in told and "view-new" not in told, told
    day.step("rebuild-end")
    assert day.deliver("view-late", view, replay_run=run) == "FAILED_PRECONDITION", "once it is closed"
    assert all(day.deliver(message, view, replay_run=run) == "completed" for message in old), "what is done is told"
    assert all(day.deliver(message, view) == "completed" for message in old + new)
    effects(day, old, 2)
    effects(day, new, 1)


def refill(day):
    """A search index is refilled, and one document of it written a third time."""
    index, run = "orders-index", "2026-11-index"
    typed(day, "policy", "set", index, "--replay", "REBUILD", "--reason", "as above")
    typed(day, "replay", "create", index, run, "--reason", "as above")
    assert day.deliver("order-1", index) == "done"
    assert day.deliver("order-1", index, replay_run=run) == "done"
    assert day.deliver("order-1", index, replay_run=run) == "completed"
    day.step("refill-again")
    assert day.deliver("order-1", index) == "completed", "the live entry is left alone"
    assert day.deliver("order-1", index, replay_run=run) == "done"
    effects(day, ["order-1"], 3)


def suppress(day):
    """Mails are not sent again: acknowledged unprocessed in the run, and in no other way."""
    mails, run = "mails", "2026-11-mails"
    old, new = ids("mail", 20), ids("mail-new", 5)
    assert all(day.deliver(message, mails) == "done" for message in old)
    day.step("suppress-begin")
    assert all(day.deliver(message, mails, replay_run=run) == "suppressed" for message in old)
    assert all(day.deliver(message, mails) == "done" for message in new), "live messages go on"
    day.step("suppress-end")
    assert all(day.deliver(message, mails, replay_run=run) == "FAILED_PRECONDITION" for message in old), "closed"
    effects(day, old + new, 1)


def main():
    chosen = options(__doc__)
    replays = [rebuild, refill, suppress]
    with Running() as running:
        day = Day(running, chosen.binary, chosen.database_url, "replays.md")
        for replay in replays:
            replay(day)
            print(f"ok: {replay.__doc__}")
        missing = set(day.steps) - set(day.ran)
        assert not missing, f"the page has steps that no replay runs: {missing}"
        day.stop()
    print(f"{len(replays)} replays, each as the page says")


if __name__ == "__main__":
    main()
