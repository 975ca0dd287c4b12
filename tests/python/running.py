"""Starts and stops real processes: the server, the broker, consumers."""

import argparse
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

PORTS = range(20_000, 32_000)
SIGNS = []
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# For the processes of examples: what `pip install ./clients/python` brings.
WITH_PACKAGE = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python" / "src")}
sys.path.insert(0, str(ROOT / "examples"))
sys.path.insert(0, str(ROOT / "examples" / "consumer"))


def options(description):
    arguments = argparse.ArgumentParser(description=description)
    arguments.add_argument("--binary", default=str(ROOT / "target/debug/idempotency-ledger"))
    arguments.add_argument("--database-url", help="an empty database [default: SQLite in a new folder]")
    arguments.add_argument("--migrated", action="store_true", help="the database has the schema")
    return arguments.parse_args()


def suite_arguments(description, size, size_is):
    """What tests/it/proof/in_python.rs gives to a suite."""
    arguments = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", required=True)
    arguments.add_argument("--database-url", required=True)
    arguments.add_argument("--size", type=int, default=size, help=size_is)
    arguments.add_argument("--seed", type=int, default=random.randrange(2**31))
    return arguments


def free_port():
    """One that stays free until it is listened on, and between two servers at it: below the ports that the system gives to
    connections. A UDP socket at it is the sign for others, as in tests/it/harness, that it is taken.
    """
    for number in range(len(PORTS)):
        port = PORTS[(os.getpid() * 97 + number) % len(PORTS)]
        sign = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            sign.bind(("127.0.0.1", port))
            with socket.socket() as listener:
                # As servers do: what lingers of closed connections is in nobody's way.
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
        except OSError:
            sign.close()
            continue
        SIGNS.append(sign)
        return port
    raise AssertionError(f"no port of {PORTS} is free")


def wait_for(what, check, seconds=20.0, every=0.05):
    """Polls until `check` is true; a condition, never a mere pause."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if check():
            return
        time.sleep(every)
    raise AssertionError(f"after {seconds} s still not so: {what}")


def stand_still(process):
    """Stops it, and waits until all of its threads stand still: on a busy machine it may answer for a while yet."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)


def checked(checks):
    """Runs (name, check) one after the other and tells how each went; returns how many failed."""
    failed = 0
    for name, check in checks:
        began = time.monotonic()
        try:
            check()
            print(f"ok      {name} ({time.monotonic() - began:.2f} s)", flush=True)
        except Exception as error:  # the others are still worth running
            failed += 1
            print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(checks) - failed} passed, {failed} failed", flush=True)
    return failed


class Running:
    """Processes that end with the `with` block, however it ends."""

    def __init__(self, migrates=True):
        """`migrates`: a database has no schema before a server is to use it."""
        self.migrates = migrates
        self.folder = tempfile.TemporaryDirectory(prefix="ledger-test-")
        self.path = pathlib.Path(self.folder.name)
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        self.folder.cleanup()

    def start(self, name, *command, environment=None, **more):
        log = (self.path / f"{name}.log").open("ab")
        process = subprocess.Popen([str(part) for part in command], **{"stdout": log, "stderr": log, "env": environment, **more})
        self.processes.append(process)
        return process

    def log(self, name):
        return (self.path / f"{name}.log").read_text(errors="replace")

    def serve(self, binary, database_url, *more, name="server"):
        """A server that is healthy; returns its process and its address."""
        database_url = database_url or f"sqlite://{self.path / 'ledger.db'}"
        if self.migrates and database_url.startswith("postgres"):
            subprocess.run([binary, "migrate", "--database-url", database_url], check=True)
        address = f"127.0.0.1:{free_port()}"
        process = self.start(name, binary, "serve", "--listen", address, "--database-url", database_url, *more)

        def healthy():
            assert process.poll() is None, self.log(name)
            asked = subprocess.run([binary, "health", "--address", address], capture_output=True)
            return asked.returncode == 0

        wait_for("the server is healthy", healthy)
        return process, address
