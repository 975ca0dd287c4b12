"""What counts as a kill, row by row: `python3 -m unittest discover -s tests/lib -p rule_test.py`."""

import pathlib
import re
import sys
import time
import types
import unittest
from unittest import mock

from mutation import killers, process, rooms, verdict
from mutation.process import Ran
from mutation.rooms import Outcome

# The tests that fail in the suite with the bug, those that fail alone with it, and those that fail without it; the known one.
ROWS = [
    ("a test that sees the bug", "a", "a", "", None, "a"),
    ("one that fails in company only", "a", "", "", None, "a fails, but not alone"),
    ("one that fails without the bug, too", "a", "a", "a", None, "a fails without the bug, too"),
    ("none fails", "", "", "", None, "no test fails"),
    ("a suite that hangs", None, "a", "", None, "no test failed within 300 s"),
    ("a suite that is aborted", -6, "", "", None, "the tests ended with code -6, and none of them failed"),
    ("the first fails in company only, the second sees the bug", "ab", "b", "", None, "b"),
    ("the first fails without the bug, too, the second sees the bug", "ab", "ab", "a", None, "b"),
    ("the known one sees the bug, as another does", "ab", "ab", "", "b", "b"),
    ("the known one sees the bug no longer", "a", "a", "", "b", "a"),
    ("the known one fails without the bug, too", "ab", "ab", "b", "b", "a"),
    ("the known one is of another suite", "a", "az", "", "z", "a"),
]
# What two suites see of a mutation, each a test that sees it, "" or a problem; what became of it.
OUTCOMES = [
    (["a", "b"], Outcome.NOTICED, "a"),
    (["", "b"], Outcome.NOTICED, "b"),
    (["", ""], Outcome.ALIVE, "no test fails"),
    ([None, ""], Outcome.HANGS, "no test fails"),
    ([None, "b"], Outcome.NOTICED, "b"),
    (["error[E0308]: mismatched types\n  --> src/a.rs:1:2\n", "b"], Outcome.DOES_NOT_COMPILE, "error[E0308]: mismatched types"),
    (["error: linking with `cc` failed: exit status: 1\n", "b"], None, ""),
]


class Suite:
    """A suite that does what its row says."""

    target, name = None, "a suite"

    def __init__(self, row):
        self.together, self.with_bug, self.without = row
        self.keep_unchanged = lambda: None

    def build(self):
        return ""

    def has(self, test):
        return test in "ab"

    def failing(self, until_one):
        if not isinstance(self.together, str):
            return [], Ran(self.together, "")
        return list(self.together[:1] if until_one else self.together), Ran(101 if self.together else 0, "")

    def fails_alone(self, test):
        return test in self.with_bug

    def passes_unchanged(self, test):
        return test not in self.without


class Seeing:
    """A lane whose suites are what they see."""

    def sees(self, suite, _mutation):
        if suite is None:
            return False, verdict.HANGS
        if "error" in suite:
            raise verdict.DoesNotCompile(suite)
        return bool(suite), suite or "no test fails"


class Rule(unittest.TestCase):
    def test_each_row(self):
        mutant = types.SimpleNamespace(number="1", suite="a", bug="a bug", changes=[])
        for what, *row, known, evidence in ROWS:
            with self.subTest(what), mock.patch.object(verdict, "Copy"), mock.patch.object(killers, "known", lambda known=known: {"1": known}), \
                    mock.patch.object(verdict, "Suite", lambda _copy, _name, row=row: Suite(row)), mock.patch.object(verdict, "say"):
                verdict.Copy.return_value.change.return_value = {}
                found = verdict.Lane(1).kill(mutant)
                self.assertEqual((found.killed, found.evidence), (len(evidence) == 1, evidence))

    def test_each_outcome_of_a_mutation(self):
        for suites, outcome, evidence in OUTCOMES:
            with self.subTest(suites=suites):
                if outcome:
                    self.assertEqual(rooms.judge(Seeing(), suites, rooms.Mutation("a", [])), (outcome, evidence))
                else:
                    with self.assertRaises(SystemExit):
                        rooms.judge(Seeing(), suites, rooms.Mutation("a", []))

    def test_span_of_a_mutation_is_replaced(self):
        places = {"start": {"line": 2, "column": 4}, "end": {"line": 3, "column": 3}}
        one = {"name": "a", "file": "f", "span": places, "replacement": "new"}
        self.assertEqual(rooms.made(one, "één\naé old\nold rest\n").changes, [("f", "één\naé old\nold rest\n", "één\naé newd rest\n")])


class Runs(unittest.TestCase):
    def test_run_ends_with_all_that_it_started_after_a_line_or_its_time(self):
        here = pathlib.Path.cwd()
        started = "import subprocess, sys; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True); "
        written = started + "print('test a ... FAILED', flush=True); subprocess.run(['sleep', '60'])"
        silent = started + "subprocess.run(['sleep', '60'])"
        ended = started + "sys.exit(3)"
        rows = [
            ("a line", written, re.compile("test"), 300, None),
            ("its time", silent, None, 5, None),
            ("its time, with an open output that it left behind", ended, None, 5, None),
            ("its end", ended.replace("True).pid", "True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid"), None, 300, 3),
        ]
        for what, script, until, seconds, code in rows:
            with self.subTest(what), mock.patch.object(process, "TIMEOUT", seconds):
                began = time.monotonic()
                ran = process.run([sys.executable, "-c", script], here, {}, until)
                self.assertEqual(ran.code, code)
                self.assertLess(time.monotonic() - began, 30)
                self.assertTrue(self.is_gone(ran.output.split()[0]))

    @staticmethod
    def is_gone(child):
        for _ in range(100):
            try:
                if ") Z " in pathlib.Path("/proc", child, "stat").read_text():
                    return True
            except OSError:
                return True
            time.sleep(0.05)
        return False


if __name__ == "__main__":
    unittest.main()
