"""The seeded bugs of the adapters: those of bugs.toml, each of which changes one place of a package.

    python tests/brokers/bugs.py   fails if one of them does not fit the code as it is
"""

from __future__ import annotations

import pathlib
import sys
import tomllib
from typing import Any

from faults import HERE
from languages import package_of


def all_bugs() -> list[dict[str, Any]]:
    return tomllib.loads((HERE / "bugs.toml").read_text(encoding="utf-8"))["bug"]


def language_of(bug: dict[str, Any]) -> str:
    return bug.get("consumer", "python")


def misfit(bug: dict[str, Any]) -> str:
    """Why a bug cannot be seeded; empty if it can."""
    file = package_of(language_of(bug)) / bug["file"]
    count = file.read_text(encoding="utf-8").count(bug["from"]) if file.is_file() else 0
    return "" if count == 1 else f"{bug['broker']}, {language_of(bug)}: {bug['bug']}: {bug['file']} has its place {count} times, not once"


def seed(bug: dict[str, Any], package: pathlib.Path) -> None:
    """Seeds a bug into a copy of its package."""
    file = package / bug["file"]
    file.write_text(file.read_text(encoding="utf-8").replace(bug["from"], bug["to"]), encoding="utf-8")


def misfits() -> list[str]:
    return [why for bug in all_bugs() if (why := misfit(bug))]


if __name__ == "__main__":
    found = misfits()
    print(*found or [f"all {len(all_bugs())} seeded bugs of the adapters fit the code"], sep="\n")
    sys.exit(bool(found))
