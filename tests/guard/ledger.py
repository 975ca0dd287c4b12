"""The ledger that the consumers share: a server that is killed now and then, and what operators do with its entries."""

import subprocess
import time
import uuid

from places import EXAMPLE  # noqa: F401  the way to the example and to what the tests share
from databases import Database
from lane import DELETABLE, HOLD, LEASE
from plan import PURGE
from running import free_port

import grpc
from stubs import admin_pb, admin_rpc, pb, rpc

POLICY = f"""
[policy]
lease = "{LEASE:.0f}s"
max_lease = "{LEASE:.0f}s"
max_hold = "{HOLD:.0f}s"
reclaim_grace = "200ms"
max_attempts = 0
"""
BATCH = 500


class Ledger:
    """The server, which is killed now and then, and stands up again at the same address."""

    def __init__(self, running, binary, database_url):
        self.running, self.binary, self.url = running, binary, database_url
        self.address, self.kills = f"127.0.0.1:{free_port()}", 0
        self.config = running.path / "policy.toml"
        self.config.write_text(POLICY)
        running.serve(binary, database_url)[0].kill()  # this one has made the tables
        self.start()

    def start(self):
        self.process = self.running.start("ledger", self.binary, "serve", "--listen", self.address,
                                          "--database-url", self.url, "--config", self.config)

    def answers(self):
        assert self.process.poll() is None, self.running.log("ledger")
        return subprocess.run([self.binary, "health", "--address", self.address], capture_output=True).returncode == 0

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.kills += 1
        self.start()


class Operator:
    """Redrives by force, and purges. Where the ledger is away it says so by False."""

    def __init__(self, ledger):
        self.admin = admin_rpc.AdminServiceStub(grpc.insecure_channel(ledger.address))
        self.store = Database(ledger.url)
        self.deleted_by_call = 0

    def does(self, what, consumer, name):
        key = pb.EntryKey(consumer=consumer, source="shop", id=name)
        try:
            entry = self.admin.GetEntry(admin_pb.GetEntryRequest(key=key), timeout=5).entry
            if what == PURGE:
                return self.purge(key, entry)
            self.admin.RedriveEntry(admin_pb.RedriveEntryRequest(**self.order(key, entry)), timeout=5)
            return True
        except grpc.RpcError as error:
            # A deletion whose answer was lost has been done.
            return error.code() == grpc.StatusCode.NOT_FOUND

    def order(self, key, entry):
        return {"key": key, "request_id": str(uuid.uuid4()), "expected_version": entry.version, "reason": "the suite",
                "force": True}

    def purge(self, key, entry):
        """By DeleteEntry where the entry is old enough; else its row goes as by the purge, whose retentions are hours.
        """
        if entry.granted_at.seconds + DELETABLE - 2 < time.time():
            self.admin.DeleteEntry(admin_pb.DeleteEntryRequest(**self.order(key, entry)), timeout=5)
            self.deleted_by_call += 1
            return True
        return self.store.execute(
            "DELETE FROM ledger.entries WHERE id = ? AND version = ?"
            " AND consumer = (SELECT no FROM ledger.consumers WHERE name = ?)",
            key.id, entry.version, key.consumer).rowcount == 1


def results(ledger, lane):
    """What the ledger answers to one more delivery of each message."""
    stub, found = rpc.LedgerServiceStub(grpc.insecure_channel(ledger.address)), {}
    for first in range(0, len(lane.messages), BATCH):
        names = [message.id for message in lane.messages[first:first + BATCH]]
        keys = [pb.EntryKey(consumer=lane.consumer, source="shop", id=name) for name in names]
        requests = [pb.ClaimRequest(key=key, owner="the suite", claim_id=str(uuid.uuid4())) for key in keys]
        for name, answer in zip(names, stub.BatchClaim(pb.BatchClaimRequest(requests=requests), timeout=30).responses):
            verdict = answer.WhichOneof("verdict")
            found[name] = answer.completed.result if verdict == "completed" else verdict
    return found
