"""Builds the consumers of grpc-go, tests/direct/go: with the pinned toolchain, from stubs that are made here."""

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
    # The compiler's plugins, which go.mod names.
    go("build", "-o", f"{BUILT}/", "tool")
    make_stubs()
    gofmt = subprocess.run([pathlib.Path(go("env", "GOROOT")) / "bin" / "gofmt", "-l", *SOURCE.glob("*.go")], stdout=subprocess.PIPE,
                           text=True, check=True)
    if gofmt.stdout:
        sys.exit(f"not as gofmt writes it: {gofmt.stdout}")
    go("vet", ".")
    program = BUILT / "grpc-go"
    go("build", "-o", program, ".")
    return program


def make_stubs():
    # A process of its own: the compiler and gRPC's library for Python keep messages of one name in one place.
    plugins = [f"--plugin={name}={BUILT / name}" for name in ("protoc-gen-go", "protoc-gen-go-grpc")]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'proto'}", *plugins, f"--go_out={SOURCE}",
                    f"--go-grpc_out={SOURCE}", "idempotency/ledger/v1/ledger.proto"], check=True)
