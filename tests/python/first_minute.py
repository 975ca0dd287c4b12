"""The first minute of a newcomer: the quick start, as it is and beside modules of the newcomer's own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from running import ROOT, Running, checked, free_port, options, wait_for

sys.path.insert(0, str(ROOT / "tests" / "lib"))
from speed.credentials import Credentials

PRINTED = """\
Claim     -> acquired, advice ADVICE_PROCESS
Complete  -> OK, advice ADVICE_ACK
Claim     -> completed, advice ADVICE_ACK
             its result: paid
"""
FIRST = """\
pays in attempt 1
the first delivery: ACK, its result: paid
the second delivery: ACK, its result: paid, replayed
"""
# What a service may well have: the compiler's name for the stubs is `idempotency` too.
OWN_MODULE = "def key(order):\n    return f'own-{order}'\n"
OWN_PROGRAM = """\
import sys
import idempotency
import grpc
from ledger_stubs import admin_pb2, ledger_pb2 as pb, ledger_pb2_grpc as rpc
key = pb.EntryKey(consumer="shop", source="shop", id=idempotency.key(1))
answer = rpc.LedgerServiceStub(grpc.insecure_channel(sys.argv[1])).Claim(pb.ClaimRequest(key=key), timeout=5)
print(answer.acquired.attempt, admin_pb2.GetEntryRequest(key=key).key.id)
"""


def run(program, *arguments, **environment):
    """What a Python program prints; its errors are those of this test."""
    command = [sys.executable, str(program), *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def beside(folder):
    """A folder with a copy of the quick start and a module of the newcomer's own."""
    for part in ["examples", "proto"]:
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "examples" / "idempotency.py").write_text(OWN_MODULE)
    return folder / "examples"


def by_the_package(_, address):
    assert run(ROOT / "examples" / "first.py", address, PYTHONPATH=str(ROOT / "clients" / "python" / "src")) == FIRST


def quick_start(_, address):
    assert run(ROOT / "examples" / "quickstart.py", address) == PRINTED


def an_endpoint_as_the_command_line_takes_it(_, address):
    program = ROOT / "examples" / "quickstart.py"
    assert run(program, f"http://{address}") == PRINTED
    assert run(program, IDEMPOTENCY_LEDGER_ENDPOINT=f"http://{address}/") == PRINTED
    refused = subprocess.run([sys.executable, str(program), f"ftp://{address}"], capture_output=True, text=True)
    assert refused.returncode == 1 and "give HOST:PORT, http://HOST:PORT or https://HOST:PORT" in refused.stderr, refused


def beside_a_module_of_that_name(folder, address):
    assert run(beside(folder) / "quickstart.py", address) == PRINTED


def with_a_module_of_that_name_on_the_path(folder, address):
    assert run(ROOT / "examples" / "quickstart.py", address, PYTHONPATH=str(beside(folder))) == PRINTED


def a_module_of_that_name_is_not_hidden(folder, _):
    program = beside(folder) / "both.py"
    program.write_text("from stubs import pb\nimport idempotency\nprint(idempotency.key(pb.ADVICE_ACK))\n")
    assert run(program) == "own-2\n"


def a_service_makes_its_stubs(folder, address):
    """By the command of docs/clients.md, beside a module of its own with the compiler's name."""
    (command,) = re.findall(r"<!-- run: stubs -->\n```sh\n(.*?)```", (ROOT / "docs" / "clients.md").read_text(), re.S)
    home = folder / "src"
    beside(folder)
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    for _ in range(2):  # a build is repeated
        subprocess.run(["bash", "-euc", command], cwd=folder, env={**os.environ, "PATH": path}, check=True)
    (home / "idempotency.py").write_text(OWN_MODULE)
    (home / "service.py").write_text(OWN_PROGRAM)
    assert run(home / "service.py", address) == "1 own-1\n"
    for module in (home / "ledger_stubs").glob("*.py"):
        assert not re.search(r"^\s*(from|import) idempotency\b", module.read_text(), re.MULTILINE), module


def with_tls_and_a_token(folder, _, running, binary):
    program = ROOT / "examples" / "quickstart.py"
    made, other = Credentials(binary, consumers="quickstart"), folder / "other"
    other.write_text("ilt_of-somebody-else\n")
    try:
        flags, (_, authority, _, token), scheme = made.of(("tls", "token"))
        address = f"127.0.0.1:{free_port()}"
        running.start("secured", binary, "serve", "--listen", address, "--observe-listen", "off", "--database-url",
                      f"sqlite://{folder / 'ledger.db'}", *flags)
        wait_for("the server listens", lambda: "serving" in running.log("secured"))
        known = {"IDEMPOTENCY_LEDGER_TLS_CA": authority, "IDEMPOTENCY_LEDGER_TOKEN_FILE": token}
        assert run(program, scheme + address, **known) == PRINTED
        for what, changes, says in [
            ("without a token", {"IDEMPOTENCY_LEDGER_TOKEN_FILE": ""}, "no credential was presented"),
            ("with another token", {"IDEMPOTENCY_LEDGER_TOKEN_FILE": str(other)}, "not known here"),
            ("without its authority", {"IDEMPOTENCY_LEDGER_TLS_CA": ""}, "failed to connect"),
        ]:
            asked = subprocess.run([sys.executable, str(program), scheme + address], env={**os.environ, **known, **changes},
                                   capture_output=True, text=True)
            assert asked.returncode == 1 and says in asked.stderr, (what, asked)
        clear = subprocess.run([sys.executable, str(program), address], env={**os.environ, **known}, capture_output=True, text=True)
        assert clear.returncode == 1 and "in the clear" in clear.stderr, clear
    finally:
        made.end()


def the_checks_leave_the_newcomers_environment_alone(_, __):
    assert pathlib.Path(sys.prefix).resolve() != (ROOT / ".venv").resolve(), "the checks would make .venv again"


CHECKS = [by_the_package, quick_start, an_endpoint_as_the_command_line_takes_it, beside_a_module_of_that_name,
          with_a_module_of_that_name_on_the_path, a_module_of_that_name_is_not_hidden, a_service_makes_its_stubs,
          the_checks_leave_the_newcomers_environment_alone]


def main():
    chosen = options(__doc__)
    with Running() as running:
        _, address = running.serve(chosen.binary, chosen.database_url)

        def in_its_own_folder(check):
            folder = running.path / check.__name__
            folder.mkdir()
            check(folder, address)

        def secured(folder, address):
            with_tls_and_a_token(folder, address, running, chosen.binary)

        secured.__name__ = with_tls_and_a_token.__name__
        failed = checked([(check.__name__, lambda check=check: in_its_own_folder(check)) for check in [*CHECKS, secured]])
        if failed:
            print(running.log("server")[-4000:])
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
