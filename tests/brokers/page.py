"""A tutorial of docs/ as it stands: its programs are written to files, and its commands are run, in an empty folder.

A block that follows `<!-- file: NAME -->` is a file, one that follows `<!-- run: NAME -->` is run by bash, and must print the text
that follows it. The package is that of this tree, as a user would have installed it, and `timeout` is a program of the walk: it
stops a consumer once the consumer has done its work, since a fixed time is too short for some machines and too long for others.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"<!-- (file|run): ([^:\n]+?)(?:: exit code (\d+))? -->\n```(?:python|java|xml|sh)\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.S)
FENCE = re.compile(r"^```(?:python|java|xml|sh)$", re.M)
MOST = 180  # seconds that a command may take

PYTHON = """#!/bin/sh
exec INTERPRETER "$@"
"""
TIMEOUT = """#!/bin/sh
exec INTERPRETER PROGRAM --timeout "$@"
"""


@dataclass(frozen=True)
class Bug:
    """A change of the page that one of its outputs must show."""

    part: str
    bug: str
    old: str
    new: str


@dataclass(frozen=True)
class Block:
    kind: str
    name: str
    code: int
    text: str
    printed: str | None
    """What the page shows; `None` if it shows nothing."""


def blocks(part: str, steps: list[str]) -> list[Block]:
    """The blocks of a page, or of a part of it, whose commands must have these names."""
    found = [Block(kind, name, int(code or 0), text, printed or None) for kind, name, code, text, printed in BLOCK.findall(part)]
    assert len(found) == len(FENCE.findall(part)), "a block of code is neither a file nor run"
    names = [block.name for block in found if block.kind == "run"]
    assert names == steps, f"the commands are {names}, and must be {steps}"
    shown = [block.name for block in found if block.kind == "run" and block.printed]
    assert shown == steps, "the page shows what each command prints"
    return found


def shell(path: pathlib.Path, program: str, shims: dict[str, str]) -> tuple[pathlib.Path, dict[str, str]]:
    """An empty folder, and the environment of a user's shell in which the package is installed. `program`: the walk's own file,
    whose `--timeout` is the `timeout` of the page. `shims`: more programs of the user, by name."""
    folder, programs = path / "user", path / "shims"
    folder.mkdir()
    programs.mkdir()
    timeout = TIMEOUT.replace("INTERPRETER", sys.executable).replace("PROGRAM", program)
    for name, text in {"python": PYTHON.replace("INTERPRETER", sys.executable), "timeout": timeout, **shims}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path_of_shell = os.pathsep.join([str(programs), os.environ["PATH"]])
    return folder, {**os.environ, "PATH": path_of_shell, "PYTHONPATH": str(ROOT / "clients" / "python" / "src")}


def typed(commands: str, folder: pathlib.Path, environment: dict[str, str]) -> tuple[int, str, str]:
    """Runs commands as a user types them: the exit code, the output and the errors. What they have started ends with them."""
    process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
    try:
        output, errors = process.communicate(timeout=MOST)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # A shell whose last command is killed has become that command.
    return 128 - process.returncode if process.returncode < 0 else process.returncode, output, errors


def follow(found: list[Block], folder: pathlib.Path, environment: dict[str, str]) -> None:
    """Writes all files, and runs all commands. Raises `AssertionError` where something else is printed than the page shows."""
    for block in found:
        if block.kind == "file":
            (folder / block.name).write_text(block.text, encoding="utf-8")
    for block in found:
        if block.kind != "run":
            continue
        ended, output, errors = typed(block.text, folder, environment)
        said = f"{output}{errors[-3000:]}"
        assert ended == block.code, f"{block.name}: the exit code is {ended}, and must be {block.code}: {said}"
        assert output == block.printed, f"{block.name} prints\n{said}\nand the page shows\n{block.printed}"


def one(name: str, walk: Callable[[], None]) -> bool:
    """Prints a line; returns whether the page does what it says."""
    began = time.monotonic()
    try:
        walk()
        wrong = ""
    except (AssertionError, subprocess.TimeoutExpired) as error:
        wrong = str(error)
    print(f"tutorial {name:<8} {'FAILED' if wrong else 'ok':<7} {time.monotonic() - began:.1f} s", flush=True)
    if wrong:
        print(f"  {wrong}", flush=True)
    return not wrong


def seen(bugs: list[Bug], page: str, imports: dict[str, tuple[str, str]], walk: Callable[[str, str], None]) -> bool:
    """Seeds each bug into the page; true where the walk of its part saw each. `imports`: what a bug with this mark needs besides."""
    unseen = []
    for bug in bugs:
        assert page.count(bug.old) == 1, f"{bug.part}, {bug.bug}: the page has its place {page.count(bug.old)} times"
        changed = page.replace(bug.old, bug.new)
        for mark, (old, new) in imports.items():
            changed = changed.replace(old, new) if mark in bug.new else changed
        print(f"{bug.part}: {bug.bug}", flush=True)
        if one(bug.part, lambda changed=changed, part=bug.part: walk(part, changed)):
            unseen.append(f"{bug.part}: {bug.bug}")
    for each in unseen:
        print(f"NOT SEEN: {each}")
    return not unseen
