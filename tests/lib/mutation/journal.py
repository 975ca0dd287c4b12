"""The verdicts of one whole run, which may take several hours: a run that was interrupted goes on where it ended."""

import json
import os
import subprocess
import time
from dataclasses import asdict

from . import killers
from .copy import ROOT, TARGET
from .verdict import Verdict

FILE = TARGET / "mutants.jsonl"


def state_of_the_tree():
    """The commit, and what differs from it."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    changes = subprocess.run(["git", "status", "--porcelain", "--", ".", f":!{killers.FILE.relative_to(ROOT)}"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return commit, changes


class Journal:
    """A line for each part of the run (its seconds and the load of the machine), and one for each verdict."""

    def __init__(self, goes_on):
        commit, changes = state_of_the_tree()
        if changes:
            raise SystemExit(f"a whole run is one of a commit; this tree differs from it:\n{changes}")
        self.started, self.verdicts, self.seconds, self.loads = time.monotonic(), {}, 0.0, []
        if not goes_on:
            TARGET.mkdir(exist_ok=True)
            FILE.write_text(json.dumps({"commit": commit}) + "\n")
            return
        if not FILE.exists():
            raise SystemExit("no whole run was begun here: leave --continue out")
        first, *rest = map(json.loads, FILE.read_text().splitlines())
        if first["commit"] != commit:
            raise SystemExit(f"the whole run was begun at commit {first['commit']}, and this is {commit}: leave --continue out")
        self.verdicts = {one["number"]: Verdict(**one) for one in rest if "number" in one}
        parts = [one for one in rest if "part" in one]
        self.seconds, self.loads = sum(one["part"] for one in parts), [one["load"] for one in parts]

    def add(self, verdict):
        self.verdicts[verdict.number] = verdict
        self._write(asdict(verdict))

    def end_part(self):
        part, load = time.monotonic() - self.started, os.getloadavg()[2]
        self._write({"part": part, "load": load})
        self.seconds += part
        self.loads.append(load)

    def summary(self, total):
        killed = sum(verdict.killed for verdict in self.verdicts.values())
        parts = "in one part" if len(self.loads) == 1 else f"in {len(self.loads)} parts"
        loads = ", ".join(f"{load:.1f}" for load in self.loads)
        return f"{self.seconds:.0f} s {parts}, load {loads}: {killed} of {total} killed, each by a test that fails alone with the bug and passes without it"

    @staticmethod
    def _write(record):
        with FILE.open("a") as file:
            file.write(json.dumps(record) + "\n")
