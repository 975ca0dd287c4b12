"""Makes the committed stubs of the package ledgerv1 from proto/, or reports that they are stale.

    python generate.py          with grpcio-tools 1.85.1 (pip install grpcio-tools==1.85.1) and Go
    python generate.py --check  needs no tool: compares what the stubs were made from with what is there

protoc is that of grpcio-tools; its plugins are those of tools/go.mod.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
TARGET = HERE / "ledgerv1"
COMPILED = "idempotency/ledger/v1"
FILES = [f"{COMPILED}/ledger.proto", f"{COMPILED}/admin.proto"]
GENERATOR = "1.85.1"
PLUGINS = {
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc",
}
SUMS = "SUMS"


def digest(path: pathlib.Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums() -> str:
    """The digests of what the stubs are made from, of what makes them, and of the stubs."""
    lines = [f"{digest(PROTO / file)}  proto/{file}" for file in FILES]
    lines += [f"{digest(HERE / 'tools' / 'go.mod')}  tools/go.mod"]
    lines += [f"{digest(path)}  {path.name}" for path in sorted(TARGET.glob("*.pb.go"))]
    return "\n".join([f"grpcio-tools {GENERATOR}", *lines]) + "\n"


def generate() -> None:
    """Makes the stubs."""
    import grpc_tools
    from grpc_tools import protoc

    version = importlib.metadata.version("grpcio-tools")
    if version != GENERATOR:
        raise SystemExit(f"grpcio-tools is {version}; install {GENERATOR}: pip install grpcio-tools=={GENERATOR}")
    include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"-I{PROTO}", f"-I{include}", f"--go_out={HERE}", f"--go-grpc_out={HERE}"]
        for name, source in PLUGINS.items():
            built = pathlib.Path(folder) / name
            subprocess.run(["go", "build", "-o", built, source], cwd=HERE / "tools", check=True)
            flags.append(f"--plugin={name}={built}")
        for old in TARGET.glob("*.pb.go"):
            old.unlink()
        if protoc.main(["protoc", *flags, *FILES]) != 0:
            raise SystemExit("the protobuf files cannot be compiled")
    (TARGET / SUMS).write_text(sums(), encoding="utf-8")


def check() -> None:
    """Fails where the stubs are not those of the protobuf files."""
    if (TARGET / SUMS).read_text(encoding="utf-8") != sums():
        raise SystemExit("the stubs are stale, or were changed by hand: run clients/go/generate.py")
    print("the stubs of clients/go are those of proto/")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make nothing; fail where the stubs are stale")
    sys.exit(check() if parser.parse_args().check else generate())
