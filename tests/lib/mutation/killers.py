"""The test that killed each seeded bug in its last run. That test is tried first, alone: if it fails, the suite is not run."""

import functools

from .copy import ROOT

FILE = ROOT / "tests" / "lib" / "mutation" / "killers.tsv"


@functools.cache
def known():
    """The names of the tests by the number of the bug."""
    if not FILE.exists():
        return {}
    return dict(line.split("\t") for line in FILE.read_text().splitlines() if not line.startswith("#"))


def record(verdicts):
    """Writes the tests of these verdicts, and leaves the others as they are."""
    tests = {**known(), **{one.number: one.evidence for one in verdicts if one.killed}}
    lines = [f"{number}\t{test}\n" for number, test in sorted(tests.items())]
    FILE.write_text("# Written by `tests/prove mutants`: a seeded bug; a tab; the test that killed it last.\n" + "".join(lines))
