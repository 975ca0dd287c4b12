"""Generates the client stubs from proto/ when a program starts, and imports them.

A service of yours generates them once, in its build:
    python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. \
        idempotency/ledger/v1/ledger.proto
"""

import hashlib
import importlib
import pathlib
import shutil
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc

HERE = pathlib.Path(__file__).resolve().parent
PROTO = HERE.parent / "proto"
FILES = ["idempotency/ledger/v1/ledger.proto", "idempotency/ledger/v1/admin.proto"]


def _generated():
    """The folder with the stubs: made once for each version of the files."""
    version = hashlib.sha256(b"".join((PROTO / file).read_bytes() for file in FILES)).hexdigest()[:16]
    home = HERE / "__pycache__" / f"stubs-{version}"
    if home.exists():
        return home
    home.parent.mkdir(exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(dir=home.parent))
    include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    if protoc.main(["protoc", f"-I{PROTO}", f"-I{include}", f"--python_out={part}",
                    f"--grpc_python_out={part}", *FILES]) != 0:
        raise SystemExit("the protobuf files could not be compiled")
    try:
        part.rename(home)
    except OSError:  # another process was quicker
        shutil.rmtree(part)
    return home


sys.path.insert(0, str(_generated()))

pb = importlib.import_module("idempotency.ledger.v1.ledger_pb2")
rpc = importlib.import_module("idempotency.ledger.v1.ledger_pb2_grpc")
admin_pb = importlib.import_module("idempotency.ledger.v1.admin_pb2")
admin_rpc = importlib.import_module("idempotency.ledger.v1.admin_pb2_grpc")
