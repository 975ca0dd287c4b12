"""Installs the package from what `cargo package` makes, and runs the README's first example over it, against a server.

    python clients/rust/installed.py BINARY     BINARY: a built idempotency-ledger

Nothing of this folder but the packed file is used: it is unpacked in a new folder, and the example is built there.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = ROOT / "target" / "client-rust"
EXAMPLE = pathlib.Path("tests/conformance/subjects/rust")
sys.path[:0] = [str(ROOT / "tests" / "conformance"), str(ROOT / "clients" / "python" / "src")]
sys.path.append(str(ROOT / "tests" / "python"))


def packed(environment: dict[str, str]) -> pathlib.Path:
    """The file that would be published."""
    # The packed crate is built below, with the example: cargo need not build it first.
    subprocess.run(["cargo", "package", "--quiet", "--locked", "--no-verify", "--allow-dirty"], cwd=HERE, env=environment,
                   check=True)
    return max((TARGET / "package").glob("*.crate"), key=lambda file: file.stat().st_mtime)


def unpacked(file: pathlib.Path, tree: pathlib.Path) -> None:
    """The package where the example's program looks for it."""
    with tarfile.open(file) as archive:
        names = archive.getnames()
        archive.extractall(tree / "clients", filter="data")
    for foreign in ("generate", "installed.py", "target"):
        assert not [name for name in names if name.split("/")[1] == foreign], f"{foreign} is packed"
    (tree / "clients" / file.name.removesuffix(".crate")).rename(tree / "clients" / "rust")
    shutil.copytree(ROOT / EXAMPLE, tree / EXAMPLE, ignore=shutil.ignore_patterns("target", "__pycache__"))


def main() -> None:
    from running import free_port
    from scene import Server, advises
    from sink import Sink
    from subject import Subject

    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    with tempfile.TemporaryDirectory(prefix="ledger-installed-") as folder:
        tree = pathlib.Path(folder)
        unpacked(packed(environment), tree)
        subprocess.run(["cargo", "build", "--quiet", "--locked", "--bin", "example"], cwd=tree / EXAMPLE, env=environment, check=True)
        program = tree / "example"
        shutil.copy2(TARGET / "debug" / "example", program)
        server = Server(sys.argv[1], tree, free_port())
        try:
            with (tree / "log").open("wb") as log:
                consumer = Subject([str(program)], {"LEDGER_ENDPOINT": server.address}, Sink(), log)
                try:
                    for _ in range(2):
                        advises(consumer.outcome(consumer.deliver("order-1")), "ACK")
                    assert consumer.sink.count("keyed", "order-1") == 1
                finally:
                    consumer.end()
        finally:
            server.kill()
    print("the first example runs over the packed crate")


if __name__ == "__main__":
    main()
