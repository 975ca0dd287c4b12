"""The recipes of docs/once.md, each command as it stands there, run again and again: each effect happens once."""

import re

from recipes import Day
from running import ROOT, Running, options

SCRIPT = """#!/bin/sh
[ -n "$IDEMPOTENCY_KEY" ] && [ "$LEDGER_FENCING_TOKEN" -gt 0 ] && [ "$LEDGER_ATTEMPT" -gt 0 ] || exit 9
case "$*" in *poison*) exit 3 ;; esac
echo "$0 $*" >>effects
echo "done: $*"
"""


def effects(day):
    file = day.folder / "effects"
    return file.read_text().splitlines() if file.exists() else []


def script(day, name):
    (day.folder / name).write_text(SCRIPT)
    (day.folder / name).chmod(0o755)


def cron(day):
    """cron"""
    script(day, "report.sh")
    for _ in range(3):
        assert day.step("cron") == "done: \n", "the report, or the stored one"
    assert effects(day) == ["./report.sh "]


def shell(day):
    """shell"""
    script(day, "pay.sh")
    for _ in range(3):
        (day.folder / "orders").mkdir(exist_ok=True)
        for order in ("one", "two", "poison"):
            (day.folder / "orders" / f"{order}.json").write_text("{}")
        day.step("shell")
    assert effects(day) == ["./pay.sh orders/one.json", "./pay.sh orders/two.json"], effects(day)
    assert [file.name for file in (day.folder / "dead-letters").iterdir()] == ["poison.json"]


def ci(day):
    """CI"""
    script(day, "deploy.sh")
    for commit in ("a1", "b2", "a1"):
        day.environment["CI_COMMIT"] = commit
        assert day.step("ci") == "done: production\n"
        assert (day.folder / "deployed.txt").read_text() == "done: production\n"
    assert effects(day) == ["./deploy.sh production"] * 2


def main():
    chosen = options(__doc__)
    recipes = [cron, shell, ci]
    blocks = re.findall(r"```sh\n", (ROOT / "docs" / "once.md").read_text())
    with Running() as running:
        ran = []
        for recipe in recipes:
            day = Day(running, chosen.binary, chosen.database_url, page="once.md")
            recipe(day)
            day.stop()
            ran += day.ran
            print(f"ok: {recipe.__doc__}")
        assert set(ran) == set(day.steps) and len(day.steps) == len(blocks), "the page has steps that no recipe runs"
    print(f"{len(recipes)} recipes of docs/once.md, each effect happened once")


if __name__ == "__main__":
    main()
