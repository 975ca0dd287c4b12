"""Seeded bugs of the client packages: bugs/LANGUAGE.toml lists them, in one form for all languages.

    [[bug]]
    name = "unknown-advice"             its name, unique in the file
    rule = 8                            the rule of docs/clients.md that it breaks
    bug = "an unknown advice is an acknowledgement"
    file = "src/…"                      in the package's folder
    from = "…"                          the code, there exactly once
    to = "…"                            what it is changed into
    killed_by = ["unknown_advice"]      each of these scenarios must fail
"""

from __future__ import annotations

import concurrent.futures
import pathlib
import shutil
import tempfile
import tomllib
from dataclasses import dataclass
from typing import Any, Callable

from scene import SCENARIOS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# What a build leaves in a package's folder, and a copy makes again.
LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", "target", ".venv", "build", "dist")


@dataclass(frozen=True)
class Bug:
    """One seeded bug."""

    name: str
    rule: int
    bug: str
    file: str
    old: str
    new: str
    killed_by: list[str]


def bugs_of(language: str) -> list[Bug]:
    """The seeded bugs of a language; empty where it has no file in bugs/."""
    path = HERE / "bugs" / f"{language}.toml"
    if not path.exists():
        return []
    read = tomllib.loads(path.read_text(encoding="utf-8"))["bug"]
    return [Bug(bug["name"], bug["rule"], bug["bug"], bug["file"], bug["from"], bug["to"], bug["killed_by"])
            for bug in read]


def run(runner: Any, chosen: list[Any], only: list[str] | None, some: Callable[[list[Bug]], list[Bug]]) -> bool:
    """Seeds each bug in a copy of its package; true where each was seen by every scenario that claims to."""
    seeded = [(language, bug) for language in chosen for bug in some(bugs_of(language.name))
              if not only or bug.name in only]
    alive = 0
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for lines, survived in pool.map(lambda each: _seeded(runner, *each), seeded):
            alive += survived
            print("\n".join(lines), flush=True)
    print(f"SUMMARY client-bugs: {len(seeded)} bugs, {alive} of their scenarios have not seen them")
    return alive == 0 and bool(seeded)


def _seeded(runner: Any, language: Any, bug: Bug) -> tuple[list[str], int]:
    """Seeds one bug; returns what to print, and how many of its scenarios have not seen it."""
    scenarios = {entry.name: entry for entry in SCENARIOS}
    lines, alive = [], 0
    with tempfile.TemporaryDirectory(prefix="ledger-bug-") as folder:
        package = pathlib.Path(folder) / "package"
        shutil.copytree(ROOT / language.folder, package, ignore=LEFT_OUT)
        source = package / bug.file
        text = source.read_text(encoding="utf-8")
        if text.count(bug.old) != 1:
            raise SystemExit(f"{language.name} {bug.name}: {bug.file} has {text.count(bug.old)} times {bug.old!r}")
        source.write_text(text.replace(bug.old, bug.new), encoding="utf-8")
        language.built(package)
        for name in bug.killed_by:
            found, took, why = runner.one(language, package, scenarios[name])
            alive += found != "FAILED"
            said = "killed by" if found == "FAILED" else "ALIVE after"
            lines.append(f"{language.name} {bug.name} (rule {bug.rule}): {said} {name}, {took:.1f} s: {why[:110]}")
    return lines, alive
