"""Mutations of a room of the server by cargo-mutants. Each is judged as a seeded bug: `tests/prove mutations ROOM`."""

import concurrent.futures
import enum
import json
import queue
import random
import re
import subprocess
from dataclasses import dataclass

from .copy import ROOT, say
from .suite import IT, LIB, Suite
from .verdict import HANGS, DoesNotCompile, Lane

# The mutated files of each room, its unit tests, and the modules of `it` that test the room.
ROOMS = {
    "identity": ("src/identity/**/*.rs", ["identity::", "server::trust", "server::jwks"], ["identity::"]),
    "wire": ("src/wire/**/*.rs", ["wire::"],
             ["wire::", "answers::", "limits::", "lookups::", "claim_table", "settle_table", "operate_table", "bulk::imports",
              "inbox::handouts", "inbox::kept", "inbox::store_rules", "inbox::store_table", "observe::fields", "policies::", "policy_validation",
              "queries::", "reconcile::", "replays::"]),
    "metrics": ("src/metrics/**/*.rs", ["metrics::"], ["metrics::", "observe::"]),
    "ledger/policies": ("src/ledger/policies/**/*.rs", ["ledger::policies"],
                        ["policies::", "holds::", "replays::", "demands::", "operators::audit_filters", "policy_validation", "unreadable::",
                         "redelivery::"]),
    "cli": ("src/cli/**/*.rs", ["cli::"], ["cli::"]),
}
LANES = 2
# An error of the code, and not of the machine: a line of the compiler that names a place follows it.
OF_THE_CODE = re.compile(r"^error.*(?=\n *--> )", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """A mutation as the tool lists it; `changes` as those of a seeded bug, with the whole file as its text."""

    name: str
    changes: list[tuple[str, str, str]]


def name_of(mutation):
    """The name without its place in the file, which each change of the file moves."""
    return re.sub(r"^(\S+?):\d+:\d+: ", r"\1: ", mutation)


def listed(tool, files):
    """All mutations of these files but of those that hold tests alone."""
    command = [tool, "mutants", "--list", "--json", "--no-config", "--package", "idempotency-ledger", "--file", files,
               "--exclude", "**/tests.rs", "--exclude", "**/tests/**"]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    return [made(one, (ROOT / one["file"]).read_text()) for one in found]


def made(one, text):
    """The mutation that the tool describes by a span of the file and what is put in its place."""
    starts = [0]
    for row in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    begin, end = (starts[place["line"] - 1] + place["column"] - 1 for place in (one["span"]["start"], one["span"]["end"]))
    return Mutation(one["name"], [(one["file"], text, text[:begin] + one["replacement"] + text[end:])])


def drawn(tool, room, count, seed, pattern):
    """Draws `count` mutations of the room by the seed, of those whose names match the pattern; all of them without a count."""
    found = sorted((one for one in listed(tool, ROOMS[room][0]) if re.search(pattern, one.name)), key=lambda one: one.name)
    return random.Random(seed).sample(found, len(found) if count is None else min(count, len(found)))


class Outcome(enum.Enum):
    """What became of a mutation."""

    NOTICED, ALIVE, HANGS, DOES_NOT_COMPILE = range(4)


def judged(room, mutations):
    """Returns the outcome of each mutation, by its name."""
    _, units, integration = ROOMS[room]
    left, found = queue.SimpleQueue(), {}
    for mutation in mutations:
        left.put(mutation)

    def taken():
        try:
            return left.get_nowait()
        except queue.Empty:
            return None

    def drive(number):
        lane = Lane(number)
        # The unit tests first: they are built in half the time, and run within a second.
        suites = [lane.prepare(Suite(lane.copy, f"{room}, {kind}", target, filters))
                  for kind, target, filters in (("unit tests", LIB, units), ("it", IT, integration))]
        while mutation := taken():
            try:
                found[mutation.name], evidence = judge(lane, suites, mutation)
            except BaseException:
                # Neither lane goes on.
                while taken():
                    pass
                raise
            say(f"{len(found):>4} of {len(mutations)}  {mutation.name}  {found[mutation.name].name} [{evidence}]")

    with concurrent.futures.ThreadPoolExecutor(LANES) as driving:
        for ended in [driving.submit(drive, number) for number in range(1, LANES + 1)]:
            ended.result()
    return found


def judge(lane, suites, mutation):
    """Returns the outcome of one mutation, and the test that notices the mutation or why none does."""
    outcome = Outcome.ALIVE
    for suite in suites:
        try:
            noticed, evidence = lane.sees(suite, mutation)
        except DoesNotCompile as problem:
            if not OF_THE_CODE.search(str(problem)):
                raise SystemExit(f"{mutation.name} cannot be built:\n{problem}") from problem
            return Outcome.DOES_NOT_COMPILE, OF_THE_CODE.search(str(problem))[0]
        if noticed:
            return Outcome.NOTICED, evidence
        if evidence == HANGS:
            outcome = Outcome.HANGS
    return outcome, evidence
