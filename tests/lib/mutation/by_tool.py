"""Tries the mutations of cargo-mutants, and compares those that are alive with the list of equivalent mutations: `tests/prove mutations`."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from mutation.results import record  # noqa: E402
from mutation.rooms import ROOMS, Outcome, drawn, judged, name_of  # noqa: E402

LISTED = ROOT / "tests/lib/mutation/equivalent.tsv"
OUTPUT = ROOT / "target" / "mutations"
RULES = "domain"
ALIVE_MAX = 0.03
ALIVE_MAX_ELSEWHERE = 0.10
# The number of mutations that are drawn of another room.
DRAWN = 60
# The number of steps of the differential proof: enough for each kind of answer, and done within a second.
STEPS = "50000"
# Seconds that the tests of the rules may take with a mutation. A mutation that makes the tests hang is counted separately.
TIMEOUT = 120


def equivalent():
    """The mutations that no test can notice, with the reasons."""
    lines = [line.split("\t") for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]
    return {name: reason for name, reason in lines}


def of_the_rules(tool):
    """Returns the number of mutations of the rules that are noticed, the names of those that are alive and that hang, and the number of
    those that do not compile. The tool itself runs the tests, since the crate is small: any test that fails notices a mutation."""
    command = [tool, "mutants", "--no-config", "--no-shuffle", "--timeout", str(TIMEOUT), "--output", OUTPUT,
               "--file", "src/domain/**/*.rs", "--package", "idempotency-ledger-domain", "--", "--lib", "--test", "rules"]
    # Its exit code says whether some are alive, which is judged below.
    subprocess.run(command, cwd=ROOT, env={**os.environ, "LEDGER_PROOF_SIZE": STEPS})
    outcomes = json.loads((OUTPUT / "mutants.out" / "outcomes.json").read_text())["outcomes"]
    by = {kind: [one["scenario"]["Mutant"]["name"] for one in outcomes if one["scenario"] != "Baseline" and one["summary"] == kind]
          for kind in ("CaughtMutant", "MissedMutant", "Timeout", "Unviable")}
    return len(by["CaughtMutant"]), by["MissedMutant"], by["Timeout"], len(by["Unviable"])


def of_a_room(given):
    """Returns the same of mutations of a room, which are drawn by the seed."""
    count = given.draw or (None if given.only else DRAWN)
    mutations = drawn(given.tool, given.room, count, given.seed, given.only)
    if not mutations:
        sys.exit(f"no mutation of {given.room} has a name that matches {given.only}")
    print(f"{given.room}: {len(mutations)} mutations, drawn by the seed {given.seed}", file=sys.stderr, flush=True)
    found = judged(given.room, mutations)
    by = {kind: [name for name, outcome in found.items() if outcome == kind] for kind in Outcome}
    return len(by[Outcome.NOTICED]), by[Outcome.ALIVE], by[Outcome.HANGS], len(by[Outcome.DOES_NOT_COMPILE])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("room", nargs="?", choices=[RULES, *ROOMS], default=RULES)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", metavar="PATTERN")
    given = parser.parse_args()
    of_rules = given.room == RULES
    if of_rules and (given.draw or given.only):
        parser.error("--draw and --only need a room: of the rules all mutations are tried")
    started = time.monotonic()
    noticed, missed, hung, broken = of_the_rules(given.tool) if of_rules else of_a_room(given)
    listed = equivalent()
    alive = [name for name in missed if name_of(name) not in listed]
    tried = noticed + len(missed) + len(hung)
    for name in alive:
        print(f"ALIVE {name}")
    for name in hung:
        print(f"HANGS {name}")
    summary = (f"{time.monotonic() - started:.0f} s: of {tried} mutations that compile {noticed} noticed, {len(hung)} hung, "
               f"{len(missed) - len(alive)} equivalent as listed, {len(alive)} alive; {broken} more do not compile"
               + ("" if of_rules else f"; seed {given.seed}"))
    print(f"SUMMARY mutations of {given.room}: {summary}")
    if not given.only:
        record(f"mutations of {given.room}", tried, summary)
    if tried == 0 or len(alive) > tried * (ALIVE_MAX if of_rules else ALIVE_MAX_ELSEWHERE):
        sys.exit(1)


if __name__ == "__main__":
    main()
