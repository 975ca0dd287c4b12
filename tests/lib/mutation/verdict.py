"""Whether a seeded bug is killed: a test fails with it, alone, and passes without it."""

import time
from dataclasses import dataclass

from .copy import Copy, say, undo
from .suite import TIMEOUT, Suite

# How many of the tests that fail in a suite are tried alone, until one of them counts.
CANDIDATES = 4


@dataclass(frozen=True)
class Verdict:
    """`evidence`: the test that kills the bug, or why none does."""

    number: str
    killed: bool
    seconds: float
    evidence: str


class Lane:
    """One copy of the tree, in which mutants are made one after the other."""

    def __init__(self, number):
        self.copy = Copy(number)
        self.unchanged = set()

    def prepare(self, mutant):
        """Builds the suite of a mutant from the unchanged code, once for all suites of the same target."""
        suite = Suite(self.copy, mutant.suite)
        if suite.target not in self.unchanged:
            say(f"building {'the program' if suite.target is None else ' '.join(suite.target)} without a bug")
            if problem := suite.build():
                raise SystemExit(f"{mutant.suite} does not compile:\n{problem}")
            suite.keep_unchanged()
            self.unchanged.add(suite.target)
        return suite

    def kill(self, mutant):
        """Makes the mutant and says what its suite sees of it."""
        suite = self.prepare(mutant)
        say(f"mutant {mutant.number}, {mutant.bug}")
        started = time.monotonic()
        before = self.copy.change(mutant)
        try:
            if problem := suite.build():
                raise SystemExit(f"mutant {mutant.number} does not compile:\n{problem}")
            failing, ran = suite.failing()
            alone = [test for test in failing[:CANDIDATES] if suite.fails_alone(test)]
        finally:
            undo(before)
        sees = next((test for test in alone if suite.passes_unchanged(test)), None)
        if sees:
            evidence = sees
        elif alone:
            evidence = f"{alone[0]} fails without the bug, too"
        elif failing:
            evidence = f"{failing[0]} fails, but not alone"
        elif ran.code is None:
            evidence = f"no test failed within {TIMEOUT} s"
        else:
            evidence = "no test fails"
        verdict = Verdict(mutant.number, sees is not None, time.monotonic() - started, evidence)
        say(f"    {line(verdict, mutant)}")
        return verdict


def line(verdict, mutant):
    return f"{verdict.number:>4}  {'killed' if verdict.killed else 'ALIVE':<6} {verdict.seconds:4.0f} s  {mutant.bug}  [{verdict.evidence}]"
