"""Makes the committed stubs of `idempotencyledger.client.proto` from proto/, or says that they are stale.

    python generate.py          with Maven, which brings the two generators; on Linux, x86-64
    python generate.py --check  needs no tool: compares what the stubs were made from with what is there

The generators are old ones on purpose: stubs of protoc 3.25 (25.5) run on protobuf-java 3.25 and every later runtime, and those
of protoc-gen-grpc-java 1.63 on grpc-java 1.63 and later. Only ledger.proto is compiled: the client has no need of the
administration. The stubs have a Java package of the client's, so that an application may have other stubs.
"""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent.parent / "proto"
FILE = "idempotency/ledger/v1/ledger.proto"
SOURCES = HERE / "client" / "src" / "stubs" / "java"
TARGET = SOURCES / "idempotencyledger" / "client" / "proto"
PACKAGES = {'java_package = "idempotencyledger.v1"': 'java_package = "idempotencyledger.client.proto"'}
COMPILER = "com.google.protobuf:protoc:3.25.5:exe:linux-x86_64"
# Its jar has the protobuf files that come with the compiler.
RUNTIME = "com.google.protobuf:protobuf-java:3.25.5:jar"
PLUGIN = "io.grpc:protoc-gen-grpc-java:1.63.0:exe:linux-x86_64"
SUMS = "SUMS"


def digest(path: pathlib.Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sums() -> str:
    """The digests of what the stubs are made from, of what makes them, and of the stubs."""
    lines = [COMPILER, PLUGIN, f"{digest(PROTO / FILE)}  proto/{FILE}"]
    lines += [f"{digest(path)}  {path.name}" for path in sorted(TARGET.glob("*.java"))]
    return "\n".join(lines) + "\n"


def copied(artifact: str, folder: pathlib.Path) -> pathlib.Path:
    """An artifact of Maven, copied into the folder."""
    subprocess.run(["mvn", "-q", "-B", "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:copy",
                    f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"], cwd=folder, check=True)
    _, name, version, kind, *platform = artifact.split(":")
    found = folder / f"{'-'.join([name, version, *platform])}.{kind}"
    found.chmod(0o755)
    return found


def generate() -> None:
    """Makes the stubs."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source, out = folder / "proto" / FILE, folder / "out"
        source.parent.mkdir(parents=True)
        out.mkdir()
        text = (PROTO / FILE).read_text(encoding="utf-8")
        for old, new in PACKAGES.items():
            if text.count(old) != 1:
                raise SystemExit(f"{FILE} has no option {old}")
            text = text.replace(old, new)
        source.write_text(text, encoding="utf-8")
        zipfile.ZipFile(copied(RUNTIME, folder)).extractall(folder / "include")
        subprocess.run([copied(COMPILER, folder), f"-I{folder / 'proto'}", f"-I{folder / 'include'}",
                        f"--java_out={out}", f"--plugin=protoc-gen-grpc-java={copied(PLUGIN, folder)}",
                        f"--grpc-java_out={out}", FILE], check=True)
        # The annotation is of a library that Java has left out since version 11.
        service = next(out.rglob("LedgerServiceGrpc.java"))
        made = re.sub(r"@javax\.annotation\.Generated\(.*?\)\n", "", service.read_text(encoding="utf-8"), flags=re.DOTALL)
        service.write_text(made, encoding="utf-8")
        shutil.rmtree(SOURCES, ignore_errors=True)
        shutil.copytree(out, SOURCES)
    (TARGET / SUMS).write_text(sums(), encoding="utf-8")


def check() -> None:
    """Fails where the stubs are not those of the protobuf file."""
    if (TARGET / SUMS).read_text(encoding="utf-8") != sums():
        raise SystemExit("the stubs are stale, or were changed by hand: run clients/java/generate.py")
    print("the stubs of clients/java are those of proto/")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make nothing; fail where the stubs are stale")
    sys.exit(check() if parser.parse_args().check else generate())
