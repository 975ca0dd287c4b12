"""The suites that see seeded bugs: what is built for a suite, which tests of it fail, and whether one test fails alone."""

import json
import os
import re
import shutil
import sys

from .copy import ROOT, TARGET
from .process import Ran, run

IT, LIB, SHUTTLE = ("--test", "it"), ("--lib",), ("--lib", "shuttle")
# The rules are a separate crate, built in seconds. Its modules have no `domain::` in front.
RULES = ("--package", "idempotency-ledger-domain", "--lib")

# Suites whose tests `cargo test` leaves out: they need the machine, Python, Go or Envoy.
IGNORED = {"proof::direct", "proof::guard", "proof::live::mesh"}
PACKAGE = ("--package", "idempotency-ledger")
# A suite that is a command: what `tests/prove counts --only` takes, with the program of the copy.
COMMANDS = {
    "counts": ["tests/counts/check.py", "--only", "claims_in_batches,single_claims"],
    "incidents": ["tests/observe/incidents.py"],
    "counts of the server": ["tests/counts/check.py", "--only", "server"],
}
# As `tests/run` builds the program.
PROGRAM = ["build", "--locked", "--quiet", "--features", "crash-points", "--bin", "idempotency-ledger", "--example", "echo"]
FAILED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)


def has_module(name, root):
    """Whether the tree has the module below this folder; `tests` is a part of the file in which it stands."""
    path = name.strip(":").removesuffix("::tests").replace("::", "/")
    return any((ROOT / root / (path + end)).exists() for end in (".rs", "/mod.rs"))


def is_known(name):
    """Whether there is a suite of this name: one without a test would end a whole run. The last part may be the beginning of a name, of a
    module or of a test."""
    if name in (*COMMANDS, "interleavings") or name.startswith("domain::") or any(has_module(name, root) for root in ("src", "tests/it")):
        return True
    parent, _, beginning = name.rpartition("::")
    folders = [ROOT / root / parent.replace("::", "/") for root in ("src", "tests/it")]
    files = [file for folder in folders for file in (folder.with_suffix(".rs"), *folder.glob("*.rs")) if file.exists()]
    begins = re.compile(rf"\b(fn|mod) {re.escape(beginning)}")
    return bool(parent) and any(begins.search(file.read_text()) for file in files)


def target_of(name):
    """Unit tests if only `src` has a module of this name, else integration tests; nothing for a command."""
    if name in COMMANDS:
        return None
    if name == "interleavings":
        return SHUTTLE
    if name.startswith("domain::"):
        return RULES
    # `tests` at the end of a name is a part of a file of `src`, also where `it` has a module of that name.
    in_src, in_tests = has_module(name, "src"), not name.endswith("::tests") and has_module(name, "tests/it")
    return LIB if in_src and not in_tests else IT


class Suite:
    """One suite in one copy of the tree: the tests of a target that one of the filters finds."""

    def __init__(self, copy, name, target=None, filters=()):
        self.copy, self.name = copy, name
        self.target = target or target_of(name)
        self.filters = filters or [name.removeprefix("domain::")]
        self.tests = None
        kind = "command" if self.target is None else "-".join(self.target).strip("-")
        self.kept = copy.built / "unchanged" / kind

    def build(self):
        """Builds its programs from the copy as it is now. Returns the compiler's output if that fails, else nothing."""
        if self.target is None:
            built = self.copy.cargo(*PROGRAM)
            return built.stderr if built.returncode else ""
        target = {SHUTTLE: [*PACKAGE, "--lib", "--features", "shuttle"], RULES: RULES}.get(
            self.target, [*PACKAGE, *self.target, "--features", "crash-points"])
        built = self.copy.cargo("test", "--locked", "--no-run", "--message-format", "json-render-diagnostics", "--quiet", *target)
        if built.returncode:
            return built.stderr
        artifacts = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
        self.tests, = [one["executable"] for one in artifacts
                       if one["reason"] == "compiler-artifact" and one["profile"]["test"] and one["executable"]]
        return ""

    def keep_unchanged(self):
        """Keeps the programs of the unchanged code, for `passes_unchanged`."""
        shutil.rmtree(self.kept, ignore_errors=True)
        self.kept.mkdir(parents=True)
        if self.copy.program.exists():
            shutil.copy2(self.copy.program, self.kept / "program")
        if self.tests:
            shutil.copy2(self.tests, self.kept / "tests")

    def has(self, test):
        """Whether a test of this name belongs to the suite."""
        return self.target is not None and any(part in test for part in self.filters)

    def failing(self, until_one=False):
        """Runs the suite, if asked only until a test has failed. Returns the tests that failed, in the order in which they ended, and how
        the run ended."""
        if self.target is None:
            ran = self._command(self.copy.program)
            return [self.name] if ran.failed else [], ran
        ignored = ["--include-ignored"] * (self.name in IGNORED)
        ran = self._run(self.tests, *self.filters, *ignored, until=FAILED if until_one else None)
        if "\nrunning 0 tests\n" in ran.output:
            sys.exit(f"{self.name}: no test has this name")
        return FAILED.findall(ran.output), ran

    def fails_alone(self, test):
        return self._alone(test, self.tests, self.copy.program).failed

    def passes_unchanged(self, test):
        """Runs the test alone, with the programs of the unchanged code. The copy must be unchanged, too."""
        program, aside = self.copy.program, self.kept / "of the mutant"
        swapped = self.target is not None and (self.kept / "program").exists()
        if swapped:
            # The tests start the program by this path. Renamed and not copied: cargo knows its own file by its identity.
            os.replace(program, aside)
            shutil.copy2(self.kept / "program", program)
        try:
            return self._alone(test, self.kept / "tests", self.kept / "program").code == 0
        finally:
            if swapped:
                os.replace(aside, program)

    def _alone(self, test, tests, program):
        if self.target is None:
            return self._command(program)
        ran = self._run(tests, test, "--exact", "--include-ignored")
        # A test that is not there passes with nothing.
        return Ran(None, ran.output) if ran.code == 0 and "\nrunning 1 test\n" not in ran.output else ran

    def _command(self, program):
        return self._run(TARGET / "venv/bin/python", *COMMANDS[self.name], "--binary", program)

    def _run(self, *command, until=None):
        return run(command, self.copy.path, self.copy.environment(), until)
