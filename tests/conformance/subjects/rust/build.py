"""Builds the subject of clients/rust over a package: build.py PACKAGE. The programs are then in PACKAGE/target/conformance.

All builds share one folder of cargo's. A copy of the package, as of a seeded bug, is taken over into one place there, so
that what the copies have in common is built once.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
TARGET = ROOT / "target" / "client-rust"
OWN = pathlib.Path("tests/conformance/subjects/rust")
PACKAGE = pathlib.Path("clients/rust")
PROGRAMS = ("subject", "example", "inbox_example", "guard", "own")


def taken_over(source: pathlib.Path, target: pathlib.Path) -> None:
    """Makes the target folder the same as the source. What is the same stays untouched, and is not built again."""
    found = {path.relative_to(source) for path in source.rglob("*")
             if path.is_file() and "target" not in path.relative_to(source).parts}
    for path in target.rglob("*"):
        if path.is_file() and path.relative_to(target) not in found:
            path.unlink()
    for path in found:
        new = target / path
        if not new.exists() or new.read_bytes() != (source / path).read_bytes():
            new.parent.mkdir(parents=True, exist_ok=True)
            # Not the time of the source: cargo must see that the file has changed.
            shutil.copyfile(source / path, new)


def main() -> None:
    package = pathlib.Path(sys.argv[1]).resolve()
    TARGET.mkdir(parents=True, exist_ok=True)
    with (TARGET / "conformance.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tree = ROOT
        if package != ROOT / PACKAGE:
            tree = TARGET / "seeded"
            taken_over(package, tree / PACKAGE)
            taken_over(HERE, tree / OWN)
        subprocess.run(["cargo", "build", "--quiet", "--locked", "--bins", "--manifest-path", tree / OWN / "Cargo.toml"],
                       env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)}, check=True)
        out = package / "target" / "conformance"
        out.mkdir(parents=True, exist_ok=True)
        for program in PROGRAMS:
            # A new file: the old one may be running.
            (out / program).unlink(missing_ok=True)
            shutil.copy2(TARGET / "debug" / program, out / program)


if __name__ == "__main__":
    main()
