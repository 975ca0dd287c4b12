"""Whether a change of the code is noticed: a test fails with it, alone, and passes without it."""

import time
from dataclasses import dataclass

from . import killers
from .copy import Copy, say, undo
from .process import TIMEOUT
from .suite import Suite

# How many of the tests that fail in a suite are tried alone, until one of them counts.
CANDIDATES = 4
HANGS = f"no test failed within {TIMEOUT} s"


class DoesNotCompile(Exception):
    """A change with which the code does not compile; the text is the compiler's output."""


@dataclass(frozen=True)
class Verdict:
    """`evidence`: the test that kills the bug, or why none does."""

    number: str
    killed: bool
    seconds: float
    evidence: str


class Lane:
    """One copy of the tree, in which changes are made one after the other."""

    def __init__(self, number):
        self.copy = Copy(number)
        self.unchanged = set()

    def prepare(self, suite):
        """Builds a suite from the unchanged code, once for all suites of the same target."""
        if suite.target not in self.unchanged:
            say(f"building {'the program' if suite.target is None else ' '.join(suite.target)} without a bug")
            if problem := suite.build():
                raise SystemExit(f"{suite.name} does not compile:\n{problem}")
            suite.keep_unchanged()
            self.unchanged.add(suite.target)
        return suite

    def prepare_for(self, mutant):
        return self.prepare(Suite(self.copy, mutant.suite))

    def kill(self, mutant):
        """Makes the mutant and says what its suite sees of it."""
        suite = self.prepare_for(mutant)
        say(f"mutant {mutant.number}, {mutant.bug}")
        started = time.monotonic()
        try:
            sees, evidence = self.sees(suite, mutant, killers.known().get(mutant.number))
        except DoesNotCompile as problem:
            raise SystemExit(f"mutant {mutant.number} does not compile:\n{problem}") from problem
        verdict = Verdict(mutant.number, sees, time.monotonic() - started, evidence)
        say(f"    {line(verdict, mutant)}")
        return verdict

    def sees(self, suite, mutant, known=None):
        """Whether a test of the suite notices the mutant, and which; or why none does. `known`: the test that did so in an earlier run.

        The first pass ends with the first test that fails. If that one does not count, a second pass runs the whole suite."""
        for thorough in (False, True):
            before = self.copy.change(mutant)
            try:
                failing, alone, code = self._with_the_bug(suite, None if thorough else known, thorough)
            finally:
                undo(before)
            if sees := next((test for test in alone if suite.passes_unchanged(test)), None):
                return True, sees
            if not failing:
                break
        if alone:
            return False, f"{alone[0]} fails without the bug, too"
        if failing:
            return False, f"{failing[0]} fails, but not alone"
        if code is None:
            return False, HANGS
        return False, "no test fails" if code == 0 else f"the tests ended with code {code}, and none of them failed"

    @staticmethod
    def _with_the_bug(suite, known, thorough):
        """Returns the tests that fail in the suite, those of them that fail alone, and the exit code of the suite."""
        if problem := suite.build():
            raise DoesNotCompile(problem)
        if known and suite.has(known) and suite.fails_alone(known):
            return [known], [known], None
        failing, ran = suite.failing(until_one=not thorough)
        return failing, [test for test in failing[:CANDIDATES] if suite.fails_alone(test)], ran.code


def line(verdict, mutant):
    return f"{verdict.number:>4}  {'killed' if verdict.killed else 'ALIVE':<6} {verdict.seconds:4.0f} s  {mutant.bug}  [{verdict.evidence}]"
