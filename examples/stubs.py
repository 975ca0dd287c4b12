"""Makes the client stubs from proto/, as the package `ledger_stubs`, and imports them.

A service of yours makes them once, in its build. FOLDER is one that its programs import from:
    python examples/stubs.py FOLDER

The compiler's own name for the package is `idempotency`. A module of yours with that name would hide
the stubs or be hidden by them, so they get another name.
"""

import hashlib
import importlib
import importlib.metadata
import pathlib
import shutil
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent / "proto"
COMPILED = "idempotency/ledger/v1"
FILES = [f"{COMPILED}/ledger.proto", f"{COMPILED}/admin.proto"]
PACKAGE = "ledger_stubs"


def make(folder):
    """Writes the package into `folder`."""
    package = pathlib.Path(folder) / PACKAGE
    include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as compiled:
        if protoc.main(["protoc", f"-I{PROTO}", f"-I{include}", f"--python_out={compiled}",
                        f"--grpc_python_out={compiled}", *FILES]) != 0:
            raise SystemExit("the protobuf files cannot be compiled")
        package.mkdir(parents=True, exist_ok=True)
        (package / "__init__.py").write_text('"""The stubs of the idempotency ledger, generated."""\n')
        for module in (pathlib.Path(compiled) / COMPILED).glob("*.py"):
            # The modules find each other within the package, whatever its name.
            text = module.read_text(encoding="utf-8")
            text = text.replace(f"from {COMPILED.replace('/', '.')} import", "from . import")
            (package / module.name).write_text(text, encoding="utf-8")


def _made():
    """The folder that the package is in: made once for each version of what makes it."""
    parts = [PROTO / file for file in FILES] + [pathlib.Path(__file__)]
    version = hashlib.sha256(importlib.metadata.version("grpcio-tools").encode())
    for part in parts:
        version.update(part.read_bytes())
    home = HERE / "__pycache__" / f"stubs-{version.hexdigest()[:16]}"
    if not home.exists():
        home.parent.mkdir(exist_ok=True)
        unfinished = pathlib.Path(tempfile.mkdtemp(dir=home.parent))
        make(unfinished)
        try:
            unfinished.rename(home)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished)
    return home


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    make(sys.argv[1])
else:
    sys.path.insert(0, str(_made()))
    pb = importlib.import_module(f"{PACKAGE}.ledger_pb2")
    rpc = importlib.import_module(f"{PACKAGE}.ledger_pb2_grpc")
    admin_pb = importlib.import_module(f"{PACKAGE}.admin_pb2")
    admin_rpc = importlib.import_module(f"{PACKAGE}.admin_pb2_grpc")
