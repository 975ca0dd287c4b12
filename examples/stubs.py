"""Generates the client stubs from proto/ when a program starts, and imports them.

A service of yours generates them once, in its build:
    python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. \
        idempotency/ledger/v1/ledger.proto
"""

import atexit
import importlib
import pathlib
import shutil
import sys
import tempfile

import grpc_tools
from grpc_tools import protoc

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ["idempotency/ledger/v1/ledger.proto", "idempotency/ledger/v1/admin.proto"]

_folder = tempfile.mkdtemp(prefix="ledger-stubs-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
_include = pathlib.Path(grpc_tools.__file__).parent / "_proto"
if protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{_include}", f"--python_out={_folder}",
                f"--grpc_python_out={_folder}", *FILES]) != 0:
    raise SystemExit("the protobuf files could not be compiled")
sys.path.insert(0, _folder)

pb = importlib.import_module("idempotency.ledger.v1.ledger_pb2")
rpc = importlib.import_module("idempotency.ledger.v1.ledger_pb2_grpc")
admin_pb = importlib.import_module("idempotency.ledger.v1.admin_pb2")
admin_rpc = importlib.import_module("idempotency.ledger.v1.admin_pb2_grpc")
