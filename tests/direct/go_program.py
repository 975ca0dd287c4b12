"""Builds the consumers of grpc-go, tests/direct/go: with the pinned toolchain, over the stubs of clients/go."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests" / "direct" / "go"
BUILT = ROOT / "target" / "direct"


def go(*arguments):
    ran = subprocess.run(["bash", ROOT / "tests/lib/go", *arguments], cwd=SOURCE, stdout=subprocess.PIPE, text=True)
    if ran.returncode != 0:
        sys.exit(f"go {' '.join(map(str, arguments))} failed: {ran.stdout}")
    return ran.stdout.strip()


def build():
    """The path of the program; quick where nothing has changed, since Go keeps what it has built."""
    BUILT.mkdir(parents=True, exist_ok=True)
    gofmt = subprocess.run([pathlib.Path(go("env", "GOROOT")) / "bin" / "gofmt", "-l", *SOURCE.glob("*.go")], stdout=subprocess.PIPE,
                           text=True, check=True)
    if gofmt.stdout:
        sys.exit(f"not as gofmt writes it: {gofmt.stdout}")
    go("vet", ".")
    program = BUILT / "grpc-go"
    go("build", "-o", program, ".")
    return program
