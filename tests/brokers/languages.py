"""The consumers of tests/brokers/consumers, and how they are built."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from typing import NamedTuple

from servers import BROKERS

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# The package of each language, which a seeded bug copies.
PACKAGES = {language: ROOT / "clients" / language for language in ("python", "go", "typescript", "java", "rust")}
PACKAGES["bridge"] = PACKAGES["go"]
# Seconds that a consumer of a language needs until it processes: one that is killed sooner has processed nothing.
STARTS = {"java": 2.0}


class Consumer(NamedTuple):
    """A program that consumes; `{package}` of the program stands for the package that it uses."""

    language: str
    program: list[str]
    package: pathlib.Path

    @property
    def starts(self) -> float:
        return STARTS.get(plain(self.language), 0.0)

    def command(self) -> list[str]:
        return [part.replace("{package}", str(self.package)) for part in self.program]


def plain(language: str) -> str:
    """The language of a variant such as `go-retries`."""
    return language.partition("-")[0]


def package_of(language: str) -> pathlib.Path:
    return PACKAGES[plain(language)]


def build(language: str, package: pathlib.Path) -> None:
    """Builds the consumers of a language over its package, or a copy; those of Python need nothing."""
    program = HERE / "consumers" / plain(language) / "build"
    if program.exists():
        subprocess.run([program, package], check=True)


def consumers() -> dict[tuple[str, str], Consumer]:
    """The consumer of each language and broker."""
    programs = {}
    for folder in sorted((HERE / "consumers").glob("*/*")):
        broker, dash, variant = folder.name.partition("-")
        if broker in BROKERS and folder.is_dir():
            programs[folder.parent.name + dash + variant, broker] = [f"{{package}}/build/brokers/{folder.name}"]
    for file in sorted((HERE / "consumers").glob("*_*.py")):
        language, broker = file.stem.split("_", 1)
        programs[language, broker] = [sys.executable, str(file)]
    return {(language, broker): Consumer(language, program, package_of(language))
            for (language, broker), program in programs.items()}
