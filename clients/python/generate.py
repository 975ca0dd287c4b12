"""Makes the committed stubs of `idempotency_ledger._proto` from proto/, or says that they are stale.

    python generate.py          with grpcio-tools 1.62.3: pip install grpcio-tools==1.62.3
    python generate.py --check  needs no tool: compares what the stubs were made from with what is there

The generator is an old one on purpose: stubs of protoc 4.25 run on protobuf 4.25 and every later runtime, while those
of a newer protoc refuse each runtime that is older than themselves, or two major versions newer.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
TARGET = HERE / "src" / "idempotency_ledger" / "_proto"
COMPILED = "idempotency/ledger/v1"
FILES = [f"{COMPILED}/ledger.proto", f"{COMPILED}/admin.proto"]
GENERATOR = "1.62.3"
SUMS = "SUMS"


def digest(path: pathlib.Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums() -> str:
    """The digests of what the stubs are made from, of what makes them, and of the stubs."""
    lines = [f"{digest(PROTO / file)}  proto/{file}" for file in FILES]
    lines += [f"{digest(path)}  {path.name}" for path in sorted(TARGET.glob("*_pb2*.py*"))]
    return "\n".join([f"grpcio-tools {GENERATOR}", *lines]) + "\n"


def generate() -> None:
    """Makes the stubs."""
    import grpc_tools
    from grpc_tools import protoc

    version = importlib.metadata.version("grpcio-tools")
    if version != GENERATOR:
        raise SystemExit(f"grpcio-tools is {version}; install {GENERATOR}: pip install grpcio-tools=={GENERATOR}")
    include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as out:
        flags = [f"-I{PROTO}", f"-I{include}", f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}"]
        if protoc.main(["protoc", *flags, *FILES]) != 0:
            raise SystemExit("the protobuf files cannot be compiled")
        for old in TARGET.glob("*_pb2*.py*"):
            old.unlink()
        for made in sorted((pathlib.Path(out) / COMPILED).glob("*_pb2*.py*")):
            # The modules find each other within the package: no top-level `idempotency` is installed.
            text = made.read_text(encoding="utf-8")
            text = text.replace(f"from {COMPILED.replace('/', '.')} import", "from . import")
            (TARGET / made.name).write_text(text, encoding="utf-8")
    (TARGET / SUMS).write_text(sums(), encoding="utf-8")


def check() -> None:
    """Fails where the stubs are not those of the protobuf files."""
    if (TARGET / SUMS).read_text(encoding="utf-8") != sums():
        raise SystemExit("the stubs are stale, or were changed by hand: run clients/python/generate.py")
    print("the stubs of clients/python are those of proto/")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make nothing; fail where the stubs are stale")
    sys.exit(check() if parser.parse_args().check else generate())
