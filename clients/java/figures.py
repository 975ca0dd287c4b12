"""Prints what a message costs, next to bare stubs, and what a client is at rest: figures.py --binary PATH."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

from started import ledger

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = HERE / "client" / "src" / "test" / "java" / "idempotencyledger" / "client" / "Figures.java"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "target" / "debug" / "idempotency-ledger"))
    options = parser.parse_args()
    build = ROOT / "tests" / "conformance" / "subjects" / "java" / "build.py"
    subprocess.run([sys.executable, str(build), str(HERE)], check=True)
    classpath = (HERE / "target" / "subject" / "arguments").read_text().splitlines()[-1].strip('"')
    with ledger(options.binary) as address:
        subprocess.run(["java", "-cp", classpath, str(SOURCE), address], check=True)


if __name__ == "__main__":
    main()
