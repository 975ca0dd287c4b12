"""Runs scenarios against the client packages, and prints the table language x scenario.

    python tests/conformance/run.py --binary target/debug/idempotency-ledger
    python tests/conformance/run.py --language python --scenario hot_loop --keep
    python tests/conformance/run.py --bugs            seeds each bug, and sees a scenario fail that claims to kill it
    python tests/conformance/run.py --checks          the linters, type checkers and unit tests of the packages
    python tests/conformance/run.py --rules           which scenario holds which rule of docs/clients.md
"""

from __future__ import annotations

import argparse
import concurrent.futures
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "clients" / "python" / "src")]
sys.path.append(str(ROOT / "tests" / "python"))
import bugs  # noqa: E402
import scenarios  # noqa: E402, F401
from running import free_port  # noqa: E402
from scene import SCENARIOS, Entry, Scene, Server  # noqa: E402

# Rules 1 to 20 and what docs/clients.md has added to them.
RULES = range(1, 24)
# Programs that a language may have besides its subject; a scenario may need one.
PROGRAMS = ("example", "inbox_example", "own", "guard", "page")
# Most scenarios wait for leases and deadlines, and none needs the machine for itself.
WORKERS = 6


@dataclass(frozen=True)
class Language:
    """How the subject of a language is built and started."""

    name: str
    folder: str
    build: list[list[str]]
    run: list[str]
    more: dict[str, list[str]]
    checks: list[list[str]]
    environment: dict[str, str]
    tools: str | None
    python: str

    def filled(self, text: str, package: pathlib.Path) -> str:
        """A text of the file with its places filled in."""
        return text.format(package=package, python=self.python, here=HERE)

    def command(self, parts: list[str], package: pathlib.Path) -> list[str]:
        """A command over this package."""
        return [self.filled(part, package) for part in parts]

    def variables(self, package: pathlib.Path) -> dict[str, str]:
        """The environment of the commands over this package."""
        return {name: self.filled(value, package) for name, value in self.environment.items()}

    def built(self, package: pathlib.Path) -> None:
        """Builds the subject over this package."""
        for command in self.build:
            subprocess.run(self.command(command, package), cwd=HERE, check=True)


def languages(python: str) -> dict[str, Language]:
    """The languages of languages.toml; `python` is the interpreter of subjects in Python."""
    read = tomllib.loads((HERE / "languages.toml").read_text(encoding="utf-8"))
    return {name: Language(name, found["folder"], found["build"], found["run"],
                           {more: found[more] for more in PROGRAMS if more in found},
                           found.get("checks", []), found.get("environment", {}), found.get("tools"), python)
            for name, found in read.items()}


@dataclass(frozen=True)
class Runner:
    """What all scenarios of a run share."""

    server: Server
    binary: str
    folder: pathlib.Path

    def one(self, language: Language, package: pathlib.Path, entry: Entry) -> tuple[str, float, str]:
        """The result of a scenario: `ok`, `-` where the language cannot have it, else `FAILED`; seconds; why."""
        began = time.monotonic()
        folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{language.name}-{entry.name}-", dir=self.folder))
        scene = Scene(self.server.address, language.command(language.run, package), language.variables(package), folder,
                      self.binary, free_port, {name: language.command(more, package) for name, more in language.more.items()})
        try:
            if entry.needs and entry.needs not in language.more and (
                    entry.needs in PROGRAMS or not scene.subject(opened=False).ready.get(entry.needs)):
                return "-", time.monotonic() - began, ""
            entry.run(scene)
            scene.always()
        except Exception as error:  # The other scenarios are still worth running.
            where = traceback.extract_tb(error.__traceback__)
            at = next((f"{frame.name}:{frame.lineno}" for frame in where if "scenarios" in frame.filename), "")
            return "FAILED", time.monotonic() - began, f"{type(error).__name__}: {error} ({at}; {folder})"
        finally:
            scene.close()
        return "ok", time.monotonic() - began, ""

    def table(self, chosen: list[Language], entries: list[Entry]) -> bool:
        """Runs all, and prints the table; true where nothing has failed."""
        results: dict[tuple[str, str], tuple[str, float, str]] = {}
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            waiting = {}
            for language in chosen:
                package = ROOT / language.folder
                language.built(package)
                for entry in entries:
                    waiting[pool.submit(self.one, language, package, entry)] = (language.name, entry.name)
            for done in concurrent.futures.as_completed(waiting):
                results[waiting[done]] = done.result()
        width = max(len(entry.name) for entry in entries)
        print(f"{'scenario':{width}}  {'rules':9}" + "".join(f"  {language.name:>16}" for language in chosen))
        for entry in entries:
            cells = [results[language.name, entry.name] for language in chosen]
            row = "".join(f"  {found + f' {took:5.1f} s' if found == 'ok' else found:>16}" for found, took, _ in cells)
            print(f"{entry.name:{width}}  {' '.join(map(str, entry.rules)):9}{row}")
        failed = [(at, why) for at, (found, _, why) in sorted(results.items()) if found == "FAILED"]
        for (language_name, name), why in failed:
            print(f"FAILED {language_name} {name}: {why}")
        ran = sum(found != "-" for found, _, _ in results.values())
        print(f"SUMMARY clients: {len(chosen)} languages, {len(entries)} scenarios, {ran} runs, {len(failed)} failed")
        return not failed


def rotated(every: list[Any], count: int | None) -> list[Any]:
    """As many of them as `count`, others with every commit; all without a count."""
    if not count or count >= len(every):
        return every
    commits = subprocess.run(["git", "rev-list", "--count", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    first = int(commits.stdout) * count
    return [every[(first + at) % len(every)] for at in range(count)]


def checks(chosen: list[Language]) -> bool:
    """Runs the checks of the languages' own tools; false where one has failed."""
    failed = []
    for language in chosen:
        for command in language.checks:
            package = ROOT / language.folder
            done = subprocess.run(language.command(command, package), cwd=package, check=False)
            if done.returncode != 0:
                failed.append(f"{language.name}: {' '.join(command)}")
    for each in failed:
        print(f"FAILED {each}")
    return not failed


def rules(known: dict[str, Language]) -> bool:
    """Prints which scenarios and seeded bugs hold each rule; false where a rule lacks a scenario, or a package a bug."""
    lacking = False
    packages: dict[str, list[bugs.Bug]] = {}
    for language in known.values():
        packages.setdefault(language.folder, []).extend(bugs.bugs_of(language.name))
    for rule in RULES:
        held = [entry.name for entry in SCENARIOS if rule in entry.rules]
        print(f"rule {rule:2}: {', '.join(held) or 'NO SCENARIO'}")
        for package, seeded in packages.items():
            broken = [bug.name for bug in seeded if bug.rule == rule]
            print(f"{'':9}{package}: {', '.join(broken) or 'NO BUG'}")
            lacking |= not held or not broken
    return not lacking


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target" / "debug" / "idempotency-ledger"))
    parser.add_argument("--language", action="append", help="only this one; may be repeated")
    parser.add_argument("--scenario", action="append", help="only this one; may be repeated")
    parser.add_argument("--bugs", action="store_true", help="run the seeded bugs")
    parser.add_argument("--bug", action="append", help="only this seeded bug, by its name; may be repeated")
    parser.add_argument("--checks", action="store_true", help="run the linters and unit tests of the packages")
    parser.add_argument("--rotate", type=int, metavar="N", help="only N languages, and with --bugs N bugs of each of"
                        " them: others with every commit")
    parser.add_argument("--tools", action="store_true", help="show what the chosen languages need, a name a line: each is a"
                        " file of tests/lib/clients")
    parser.add_argument("--rules", action="store_true", help="show which scenarios hold which rule")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of subjects in Python")
    parser.add_argument("--keep", action="store_true", help="keep the logs of servers and subjects")
    options = parser.parse_args()
    known = languages(options.python)
    if options.rules:
        return 0 if rules(known) else 1
    chosen = [known[name] for name in options.language or known]
    if options.bugs and not options.language:
        chosen = [language for language in chosen if bugs.bugs_of(language.name)]
    if options.rotate:
        chosen = rotated(chosen, options.rotate)
    if options.tools:
        print("\n".join(sorted({language.tools for language in chosen if language.tools})))
        return 0
    if options.checks:
        return 0 if checks(chosen) else 1
    entries = [entry for entry in SCENARIOS if not options.scenario or entry.name in options.scenario]
    if options.scenario and len(entries) != len(options.scenario):
        raise SystemExit(f"the scenarios are: {', '.join(entry.name for entry in SCENARIOS)}")
    with tempfile.TemporaryDirectory(prefix="ledger-clients-", delete=not options.keep) if sys.version_info >= (
            3, 12) else tempfile.TemporaryDirectory(prefix="ledger-clients-") as folder:
        path = pathlib.Path(folder)
        server = Server(options.binary, path, free_port())
        try:
            runner = Runner(server, options.binary, path)
            if options.bugs or options.bug:
                return 0 if bugs.run(runner, chosen, options.bug, lambda seeded: rotated(seeded, options.rotate)) else 1
            return 0 if runner.table(chosen, entries) else 1
        finally:
            server.kill()


if __name__ == "__main__":
    sys.exit(main())
