"""The recipes of docs/recipes.md, each command as it stands there, amid a consumer whose effects are counted.

Every message must have its effect once, whatever day it is.
"""

import collections
import csv
import datetime
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import uuid

from running import ROOT, Running, options, wait_for

import grpc
from stubs import pb, rpc

STEP = re.compile(r"<!-- run: ([a-z-]+)(?:, exit code (0 or 6))? -->\n\s*```sh\n(.*?)```", re.S)
POLICY = """
[policy]
lease = "1s"
reclaim_grace = "0s"
max_attempts = 2
backoff = { initial = "0s", max = "0s" }
"""


def program(name):
    """A program of Postgres: on the path, or of the newest version that is installed."""
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), key=lambda path: float(path.split("/")[4]))
    return found[-1] if found else shutil.which(name) or sys.exit(f"{name} is missing; install it: "
                                                                  "apt-get install -y postgresql")


class Effects:
    """What the consumer did, as its sink knows it."""

    def __init__(self):
        self.done = collections.Counter()
        self.when = {}

    def have(self, message, days_ago=0):
        self.done[message] += 1
        when = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=days_ago)
        self.when[message] = when.isoformat()

    def export(self, folder):
        """As the recipes name the files."""
        with (folder / "processed.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "completed_at"), *((one, self.when[one]) for one in self.done)])
        lines = ({"source": "shop", "id": one, "completed_at": self.when[one]} for one in self.done)
        (folder / "processed.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))


class Day:
    """A server, a consumer, and an operator with the recipes of a page at hand."""

    def __init__(self, running, binary, database_url, page="recipes.md"):
        self.running, self.binary = running, pathlib.Path(binary)
        self.database_url = database_url or f"sqlite://{running.path / 'ledger.db'}"
        self.on_postgres = self.database_url.startswith("postgres")
        self.folder = running.path / uuid.uuid4().hex
        self.folder.mkdir()
        self.policy = self.folder / "policy.toml"
        self.policy.write_text(POLICY)
        self.steps = {name: (code, block) for name, code, block in
                      STEP.findall((ROOT / "docs" / page).read_text())}
        self.ran = []
        self.effects = Effects()
        self.start()

    def start(self):
        self.server, address = self.running.serve(self.binary, self.database_url, "--config", self.policy,
                                                  "--drain-wait", "0s")
        self.ledger = rpc.LedgerServiceStub(grpc.insecure_channel(address))
        self.environment = {**os.environ, "IDEMPOTENCY_LEDGER_ENDPOINT": address, "COLUMNS": "110",
                            "PATH": f"{self.binary.resolve().parent}:{os.environ['PATH']}"}

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait(timeout=30)

    def step(self, name):
        """What the recipe says, by a shell, in the folder of its files."""
        code, block = self.steps[name]
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=self.folder, env=self.environment,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        allowed = {"0 or 6": (0, 6)}.get(code, (0,))
        assert ran.returncode in allowed, f"{name}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
        self.ran.append(name)
        return ran.stdout + ran.stderr

    def deliver(self, message, consumer="payments", broken=False, complete=True, replay_run=""):
        """One delivery; what became of it."""
        key = pb.EntryKey(consumer=consumer, source="shop", id=message, replay_run=replay_run)
        request = pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="worker-1")
        try:
            answer = self.ledger.Claim(request, timeout=10)
        except grpc.RpcError as error:
            return error.details().split("`")[1] if "`" in error.details() else error.code().name
        verdict = answer.WhichOneof("verdict")
        if verdict != "acquired":
            return verdict
        if broken:
            self.ledger.Fail(pb.FailRequest(key=key, token=answer.acquired.token, error="502"), timeout=10)
            return "failed"
        self.effects.have(message)
        if complete:
            self.ledger.Complete(pb.CompleteRequest(key=key, token=answer.acquired.token), timeout=10)
        return "done"

    def once(self, messages):
        wrong = {message: self.effects.done[message] for message in messages if self.effects.done[message] != 1}
        assert not wrong, f"effects, where each message should have one: {wrong}"


def ids(prefix, number):
    """Plain ones, and some that a careless script stumbles over."""
    unusual = [f"-{prefix}", f"--{prefix}", f'{prefix}, "2"', f"{prefix}\\n", f"{prefix} é'$x`", f" {prefix} "]
    return [f"{prefix}-{at:03}" for at in range(number)] + unusual


def dead_letters(day):
    """Dead letters, replayed: redriven first, and each once."""
    messages = ids("dead", 20)
    for _ in range(2):
        assert all(day.deliver(message, broken=True) == "failed" for message in messages)
    assert all(day.deliver(message) == "parked" for message in messages), "a replay before the redrive"
    assert "ATTEMPTS_EXHAUSTED" in day.step("dead-letters-look")
    day.step("dead-letters-redrive")
    assert all(day.deliver(message) == "done" for message in messages)
    assert all(day.deliver(message) == "completed" for message in messages)
    day.once(messages)


def adoption(day):
    """A consumer that had its own table: nothing is processed again."""
    old, new = ids("old", 30), ids("new", 10)
    for at, message in enumerate(old):
        # Some are older than the retention that a consumer has by default.
        day.effects.have(message, days_ago=at % 20)
    day.effects.export(day.folder)
    day.step("adopt-policy")
    day.step("adopt-import")
    for message in ids("meanwhile", 5):
        day.effects.have(message)
    day.effects.export(day.folder)
    day.step("adopt-import")
    assert all(day.deliver(message) == "completed" for message in old + ids("meanwhile", 5))
    assert all(day.deliver(message) == "done" for message in new)
    day.once(old + new + ids("meanwhile", 5))


def restore(day):
    """A backup is restored; whatever was done since has its effect no second time."""
    before, under_way, since, never = ids("before", 10), ids("under-way", 5), ids("since", 10), ids("never", 5)
    for message in before:
        assert day.deliver(message) == "done"
    # Their effect is there, their Complete comes after the backup.
    keys = {message: pb.EntryKey(consumer="payments", source="shop", id=message) for message in under_way}
    tokens = {}
    for message, key in keys.items():
        claim = pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="worker-1")
        tokens[message] = day.ledger.Claim(claim, timeout=10).acquired.token
    backup = take_backup(day)
    for message, key in keys.items():
        day.effects.have(message)
        day.ledger.Complete(pb.CompleteRequest(key=key, token=tokens[message]), timeout=10)
    for message in since:
        assert day.deliver(message) == "done"
    day.stop()
    put_back(day, backup)
    day.start()
    day.step("restore-hold")
    day.effects.export(day.folder)
    assert all(day.deliver(message) == "disabled" for message in since + never), "held"
    day.step("restore-import")
    day.step("restore-resolve")
    day.step("restore-release")
    for message in before + under_way + since:
        assert day.deliver(message) == "completed", message
    for message in never:
        assert day.deliver(message) == "done", message
    day.once(before + under_way + since + never)


def take_backup(day):
    """Of a running server."""
    backup = day.folder / "backup"
    if day.on_postgres:
        subprocess.run([program("pg_dump"), "--format=custom", f"--file={backup}", day.database_url], check=True)
    else:
        subprocess.run([day.binary, "backup", "--database-url", day.database_url, backup], check=True)
    return backup


def put_back(day, backup):
    if day.on_postgres:
        subprocess.run([program("pg_restore"), "--clean", "--if-exists", f"--dbname={day.database_url}", backup],
                       check=True)
    else:
        subprocess.run([day.binary, "restore", "--database-url", day.database_url, backup, "--accept-loss"], check=True)


def renamed(day):
    """A consumer with another name knows what the old one did."""
    done, released, later = ids("renamed", 15), "renamed-released", ids("later", 5)
    for message in done:
        assert day.deliver(message) == "done"
    # Some were done longer ago than the retention that a consumer has by default.
    aged = ids("renamed-aged", 5)
    for message in aged:
        day.effects.have(message, days_ago=20)
    day.effects.export(day.folder)
    day.step("adopt-policy")
    day.step("adopt-import")
    assert day.deliver(released, broken=True) == "failed"
    assert "COMPLETED" in day.step("rename-hold")
    assert day.deliver(later[0]) == "disabled"
    day.step("rename-policy")
    day.step("rename-copy")
    for message in done + aged:
        assert day.deliver(message, "billing") == "completed", message
    for message in [released, *later]:
        assert day.deliver(message, "billing") == "done", message
    day.once([*done, *aged, released, *later])


def retired(day):
    """A retired consumer leaves nothing that waits for ever."""
    parked, abandoned, failed = ids("retired", 4), ids("abandoned", 2), ids("failed", 2)
    for _ in range(2):
        assert all(day.deliver(message, broken=True) == "failed" for message in parked)
    assert all(day.deliver(message) == "parked" for message in parked)
    assert all(day.deliver(message, broken=True) == "failed" for message in failed)
    assert all(day.deliver(message, complete=False) == "done" for message in abandoned)
    day.step("retire-hold")
    day.step("retire-resolve")
    assert all(day.deliver(message) == "failed" for message in parked + abandoned + failed)
    day.step("retire-delete")
    wait_for("the policy is gone", lambda: day.deliver("unheard-of") == "done")


def new_ids(day):
    """Ids of another format: what was done under the old ones is known under the new ones."""
    done, released, later = ids("numbered", 15), "numbered-released", ids("numbered-later", 5)
    assert all(day.deliver(message) == "done" for message in done)
    assert day.deliver(released, broken=True) == "failed"
    assert "COMPLETED" in day.step("ids-hold")
    assert day.deliver(f"order/{later[0]}") == "disabled"
    day.step("ids-copy")
    day.step("ids-release")
    assert all(day.deliver(f"order/{message}") == "completed" for message in done)
    fresh = [f"order/{message}" for message in [released, *later]]
    assert all(day.deliver(message) == "done" for message in fresh)
    day.once([*done, *fresh])


def main():
    chosen = options(__doc__)
    if not shutil.which("jq"):
        sys.exit("jq is missing; install it: apt-get install -y jq")
    recipes = [adoption, restore, dead_letters, renamed, new_ids, retired]
    with Running() as running:
        day, ran = None, []
        for recipe in recipes:
            # Each day begins with a server of its own; the ledger goes on from day to day.
            day = Day(running, chosen.binary, chosen.database_url)
            hold_nobody(day)
            recipe(day)
            day.stop()
            ran += day.ran
            print(f"ok: {recipe.__doc__}")
        missing = set(day.steps) - set(ran)
        assert not missing, f"the page has steps that no recipe runs: {missing}"
    print(f"{len(recipes)} recipes, each message had its effect once")


def hold_nobody(day):
    subprocess.run([day.binary, "policy", "set", "payments", "--disabled", "false", "--reason", "another day"],
                   env=day.environment, stdin=subprocess.DEVNULL, capture_output=True, check=True)


if __name__ == "__main__":
    main()
