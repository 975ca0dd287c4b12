"""What counts as a kill, row by row: `python3 -m unittest discover -s tests/lib -p rule_test.py`."""

import types
import unittest
from unittest import mock

from mutation import verdict
from mutation.suite import Ran

# The test of the suite, with the bug: in the suite, alone; and alone without the bug.
ROWS = [
    ("a test that sees the bug", "FAILED", True, True, "a::test"),
    ("one that fails in company only", "FAILED", False, True, "a::test fails, but not alone"),
    ("one that fails without the bug, too", "FAILED", True, False, "a::test fails without the bug, too"),
    ("none fails", "ok", False, True, "no test fails"),
    ("a suite that hangs", None, True, True, "no test failed within 300 s"),
]


class Suite:
    """A suite of one test, which does what its row says."""

    target = None

    def __init__(self, row):
        self.together, self.with_bug, self.without = row
        self.keep_unchanged = lambda: None

    def build(self):
        return ""

    def failing(self):
        code = {"FAILED": 101, "ok": 0, None: None}[self.together]
        return ["a::test"] if self.together == "FAILED" else [], Ran(code, "")

    def fails_alone(self, test):
        return self.with_bug

    def passes_unchanged(self, test):
        return self.without


class Rule(unittest.TestCase):
    def test_each_row(self):
        mutant = types.SimpleNamespace(number="1", suite="a", bug="a bug", changes=[])
        for what, *row, evidence in ROWS:
            with self.subTest(what), mock.patch.object(verdict, "Copy"), \
                    mock.patch.object(verdict, "Suite", lambda _copy, _name, row=row: Suite(row)), mock.patch.object(verdict, "say"):
                verdict.Copy.return_value.change.return_value = {}
                found = verdict.Lane(1).kill(mutant)
                self.assertEqual((found.killed, found.evidence), (evidence == "a::test", evidence))


if __name__ == "__main__":
    unittest.main()
