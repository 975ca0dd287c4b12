"""Runs cargo-mutants over a room, and holds what is alive against the list of equivalent mutations: `tests/prove mutations`."""

import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "lib"))
from mutation.results import record  # noqa: E402

LISTED = ROOT / "tests/lib/mutation/equivalent.tsv"
OUTPUT = ROOT / "target" / "mutations"
RULES = "domain"
SERVER = ["--package", "idempotency-ledger"]
# The unit tests and `it` alone: each further program would be linked for each mutation.
BY_NAME = ["--lib", "--test", "it", "--"]
# The mutated files of each room, and the tests that may notice a mutation.
ROOMS = {
    RULES: ("src/domain/**/*.rs", ["--package", "idempotency-ledger-domain"], ["--lib", "--test", "rules"]),
    "identity": ("src/identity/**/*.rs", SERVER, [*BY_NAME, "identity::"]),
    "wire": ("src/wire/**/*.rs", SERVER, [*BY_NAME, "wire::", "limits::", "answers::", "claim_table", "lookups::"]),
    "metrics": ("src/metrics/**/*.rs", SERVER, [*BY_NAME, "metrics::", "observe::"]),
    "ledger/policies": ("src/ledger/policies/**/*.rs", SERVER, [*BY_NAME, "policies::", "holds::", "replays::"]),
    "cli": ("src/cli/**/*.rs", SERVER, [*BY_NAME, "cli::"]),
}
ALIVE_MAX = {RULES: 0.03}
ALIVE_MAX_ELSEWHERE = 0.10
# The differential proof has so many steps: enough for each kind of answer, and done within a second.
STEPS = "50000"
# Seconds that the tests may take with a mutation; one that makes them hang is noticed by people who wait, and counted apart. Those of
# another room start servers: `identity::` took longer than two minutes on a busy machine.
TIMEOUT = 120
TIMEOUT_ELSEWHERE = 900


def name_of(mutation):
    """The name without its place in the file, which each change of the file moves."""
    return re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", mutation)


def equivalent():
    """The mutations that no test can notice, with the reasons."""
    lines = [line.split("\t") for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]
    return {name: reason for name, reason in lines}


def tool(path, *arguments):
    return subprocess.run([path, "mutants", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def drawn(path, files, package, count, seed):
    """The names of `count` mutations of these files; all of them without a count."""
    everything = tool(path, "--list", "--no-config", "--file", files, *package).splitlines()
    return everything if count is None else sorted(random.Random(seed).sample(everything, min(count, len(everything))))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", required=True)
    parser.add_argument("room", nargs="?", choices=ROOMS, default=RULES)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    files, package, tests = ROOMS[given.room]
    count = given.draw or (None if given.room == RULES else 60)
    names = drawn(given.tool, files, package, count, given.seed)
    print(f"{given.room}: {len(names)} mutations" + (f", drawn by the seed {given.seed}" if count else ""), file=sys.stderr, flush=True)
    chosen = [f"--re=^{re.escape(name)}$" for name in names] if count else []
    features = [] if given.room == RULES else ["--features", "crash-points"]
    limit = TIMEOUT if given.room == RULES else TIMEOUT_ELSEWHERE
    started = time.monotonic()
    # Its exit code tells that some are alive, which is judged below.
    subprocess.run([given.tool, "mutants", "--no-config", "--no-shuffle", "--timeout", str(limit), "--output", OUTPUT, "--file", files,
                    *package, *features, *chosen, "--", *tests], cwd=ROOT, env={**os.environ, "LEDGER_PROOF_SIZE": STEPS})
    outcomes = json.loads((OUTPUT / "mutants.out" / "outcomes.json").read_text())
    of = {kind: [name_of(one["scenario"]["Mutant"]["name"]) for one in outcomes["outcomes"]
                 if one["scenario"] != "Baseline" and one["summary"] == kind]
          for kind in ("CaughtMutant", "MissedMutant", "Timeout", "Unviable")}
    listed = equivalent()
    alive = [name for name in of["MissedMutant"] if name not in listed]
    tried = len(of["CaughtMutant"]) + len(of["MissedMutant"]) + len(of["Timeout"])
    for name in alive:
        print(f"ALIVE {name}")
    for name in of["Timeout"]:
        print(f"HANGS {name}")
    summary = (f"{time.monotonic() - started:.0f} s: of {tried} mutations that compile {len(of['CaughtMutant'])} noticed, "
               f"{len(of['Timeout'])} hung, {len(of['MissedMutant']) - len(alive)} equivalent as listed, {len(alive)} alive"
               + (f"; seed {given.seed}" if count else ""))
    print(f"SUMMARY mutations of {given.room}: {summary}")
    record(f"mutations of {given.room}", tried, summary)
    if tried == 0 or len(alive) > tried * ALIVE_MAX.get(given.room, ALIVE_MAX_ELSEWHERE):
        sys.exit(1)


if __name__ == "__main__":
    main()
