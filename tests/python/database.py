"""docs/postgres.md: its blocks of commands, as they stand there, on clusters of their own.

    python tests/python/database.py --binary target/debug/idempotency-ledger    with Postgres' programs on the PATH
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import uuid

import grpc

from running import ROOT, Running, free_port, options
from stubs import pb, rpc

STEP = re.compile(r"^ *<!-- run: ([\w-]+) -->\n *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# By a program: a fork of this process with another user would run what gRPC does at forks, and sometimes die of it.
AS_POSTGRES = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"] if os.geteuid() == 0 else []


class Page:
    """The page, and what its blocks find in the environment."""

    def __init__(self, running, binary):
        self.running, self.binary = running, pathlib.Path(binary).resolve()
        self.steps = dict(STEP.findall((ROOT / "docs/postgres.md").read_text()))
        self.ran, self.clusters = [], []
        self.folder = running.path / "postgres"
        self.folder.mkdir()
        running.path.chmod(0o755)
        if AS_POSTGRES:
            shutil.chown(self.folder, "postgres", "postgres")
        self.environment = {**os.environ, "PATH": f"{self.binary.parent}:{os.environ['PATH']}"}

    def shell(self, text, by=()):
        ran = subprocess.run([*by, "bash", "-euo", "pipefail", "-c", text], cwd=self.folder, env=self.environment, capture_output=True,
                             stdin=subprocess.DEVNULL, text=True, timeout=120)
        assert ran.returncode == 0, f"{text}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
        return ran.stdout.strip()

    def step(self, name, by=()):
        self.ran.append(name)
        return self.shell(self.steps[name], by)

    def cluster(self, data, port):
        """A cluster that keeps its log in ARCHIVE, as the page says."""
        self.clusters.append(data)
        archive = self.folder / "archive"
        self.shell(f"initdb --pgdata {data} --username postgres --auth trust --encoding UTF8 --no-locale --no-sync", AS_POSTGRES)
        page = (ROOT / "docs/postgres.md").read_text()
        settings = re.search(r"```text\n(archive_mode.*?)```", page, re.DOTALL)[1].replace("/archive/", f"{archive}/")
        self.shell(f"mkdir -p {archive}; cat >> {data}/postgresql.conf <<'CONF'\n{settings}port = {port}\nlisten_addresses = '127.0.0.1'\n"
                   f"unix_socket_directories = '{self.folder}'\nCONF\npg_ctl --pgdata {data} --log {data}/log --wait start > /dev/null", AS_POSTGRES)
        return archive

    def end(self):
        for data in self.clusters:
            if (data / "postmaster.pid").exists():
                subprocess.run([*AS_POSTGRES, "pg_ctl", "--pgdata", data, "--mode", "immediate", "stop"], capture_output=True, cwd=self.folder)


def serve(page, database_url):
    """A server with the role of the servers alone: it could not migrate."""
    address = f"127.0.0.1:{free_port()}"
    server = page.running.start(f"server-{address}", page.binary, "serve", "--listen", address, "--observe-listen", "off",
                                "--database-url", database_url, "--drain-wait", "0s", "--startup-wait", "20s")
    page.environment["IDEMPOTENCY_LEDGER_ENDPOINT"] = address
    channel = grpc.insecure_channel(address)
    grpc.channel_ready_future(channel).result(timeout=30)
    return server, rpc.LedgerServiceStub(channel)


def stop(server):
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=30) == 0


def deliver(stub, message):
    """One delivery, completed where it is new: the verdict or the reason, and the token."""
    key = pb.EntryKey(consumer="payments", source="shop", id=message)
    try:
        answer = stub.Claim(pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="worker-1"), timeout=10)
    except grpc.RpcError as error:
        return dict(error.trailing_metadata()).get("idempotency-ledger-reason"), 0
    verdict = answer.WhichOneof("verdict")
    token = answer.acquired.token if verdict == "acquired" else 0
    if token:
        stub.Complete(pb.CompleteRequest(key=key, token=token), timeout=10)
    return verdict, token


def restored(page, port):
    """What was done before the instant is known, and what came after it is new: but only once the consumer is let go on."""
    url = f"postgres://ledger_app@127.0.0.1:{port}/ledger"
    environment = page.environment
    environment |= {"ADMIN_URL": f"postgres://postgres@127.0.0.1:{port}/postgres", "OWNER_URL": f"postgres://ledger_owner@127.0.0.1:{port}/ledger",
                    "BACKUP": str(page.folder / "backup"), "RESTORED": str(page.folder / "restored")}
    environment["ARCHIVE"] = str(page.cluster(page.folder / "data", port))
    page.step("roles")
    server, stub = serve(page, url)
    assert deliver(stub, "before the backup")[0] == "acquired"
    page.step("backup", AS_POSTGRES)
    assert deliver(stub, "after the backup")[0] == "acquired"
    environment["UNTIL"] = page.shell('psql "$ADMIN_URL" -XAtc "SELECT clock_timestamp()"')
    time.sleep(0.05)
    verdict, lost = deliver(stub, "after the instant")
    assert verdict == "acquired"
    stop(server)
    # The last part of the log goes to the archive; the machine is lost.
    page.shell('psql "$ADMIN_URL" -XAtc "SELECT pg_switch_wal()"')
    page.shell(f"pg_ctl --pgdata {page.folder}/data --mode fast --wait stop", AS_POSTGRES)
    page.clusters.append(page.folder / "restored")
    page.step("restore", AS_POSTGRES)
    server, stub = serve(page, url)
    page.step("hold")
    assert deliver(stub, "after the instant")[0] == "CONSUMER_DISABLED"
    before = page.shell("idempotency-ledger tokens show --json")
    page.step("offset")
    assert page.shell("idempotency-ledger tokens show --json") != before
    page.step("release")
    assert [deliver(stub, message)[0] for message in ("before the backup", "after the backup")] == ["completed"] * 2
    verdict, token = deliver(stub, "after the instant")
    assert verdict == "acquired" and token > lost + 3_500_000_000, f"{verdict}, {token} after {lost}"
    stop(server)


def copied(page, port):
    """A dump has all that the ledger has."""
    page.shell('psql "$ADMIN_URL" -Xqc "CREATE DATABASE copied OWNER ledger_owner"')
    page.environment |= {"OLD_URL": f"postgres://postgres@127.0.0.1:{port}/ledger", "NEW_URL": f"postgres://ledger_owner@127.0.0.1:{port}/copied",
                         "DUMP": str(page.folder / "ledger.dump")}
    page.step("dump")
    server, stub = serve(page, f"postgres://ledger_app@127.0.0.1:{port}/copied")
    assert [deliver(stub, message)[0] for message in ("before the backup", "after the instant")] == ["completed"] * 2
    assert deliver(stub, "after the dump")[0] == "acquired"
    stop(server)


def main():
    chosen, port = options(__doc__), free_port()
    with Running() as running:
        page = Page(running, chosen.binary)
        try:
            for part in (restored, copied):
                part(page, port)
                print(f"ok: {part.__doc__}")
        finally:
            page.end()
        missing = set(page.steps) - set(page.ran)
        assert not missing, f"the page has steps that nothing runs: {missing}"


if __name__ == "__main__":
    main()
