"""A new operator finds, understands and mends what is stuck, by the command line alone.

A consumer poisons 1,000 messages among 100,000. Who looks at it knows nothing but the commands of
the section `An operator's first day` of docs/operations.md, and that section must show what they
print: times and versions may differ, all else is compared.
"""

import concurrent.futures
import itertools
import pathlib
import re
import subprocess
import sys
import uuid

from running import ROOT, Running, options

import grpc
from stubs import pb, rpc

MESSAGES = 100_000
POISON_EVERY = 100
BATCH = 1_000
POLICY = """
[consumers."payments"]
max_attempts = 3
backoff = { initial = "0s", max = "0s" }
"""
PAGE = ROOT / "docs" / "operations.md"
BEGIN, END = "<!-- tests/python/first_day.py prints this: begin -->\n", "<!-- end -->"


def message_id(number):
    return f"order-{number:06}"


def consume(ledger, numbers, broken):
    """One worker, batch by batch; the messages of a broken provider fail. How many were done."""
    claims = [
        pb.ClaimRequest(
            key=pb.EntryKey(consumer="payments", source="shop", id=message_id(number)),
            claim_id=str(uuid.uuid4()), owner="worker-1")
        for number in numbers
    ]
    answers = ledger.BatchClaim(pb.BatchClaimRequest(requests=claims), timeout=60).responses
    settlements, done = [], 0
    for number, claim, answer in zip(numbers, claims, answers):
        if answer.WhichOneof("verdict") != "acquired":
            continue
        token = answer.acquired.token
        if broken and number % POISON_EVERY == 0:
            error = f"provider answered 502 for {claim.key.id}"
            settlements.append(pb.Settlement(fail=pb.FailRequest(key=claim.key, token=token, error=error)))
        else:
            done += 1
            settlements.append(pb.Settlement(complete=pb.CompleteRequest(key=claim.key, token=token)))
    if settlements:
        results = ledger.BatchSettle(pb.BatchSettleRequest(settlements=settlements), timeout=60).results
        assert all(one.WhichOneof("outcome") != "rejected" for one in results), results[0]
    return done


def consume_all(address, numbers, broken):
    ledger = rpc.LedgerServiceStub(grpc.insecure_channel(address))
    parts = [numbers[at:at + BATCH] for at in range(0, len(numbers), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(4) as workers:
        return sum(workers.map(lambda part: consume(ledger, part, broken), parts))


class Operator:
    """Types commands, and keeps what is printed."""

    def __init__(self, binary, address):
        # By its name, as an operator types it: so the program names itself in what it suggests.
        self.binary, self.command = str(binary), ["idempotency-ledger"]
        self.environment = {"IDEMPOTENCY_LEDGER_ENDPOINT": address, "PATH": "/usr/bin:/bin", "COLUMNS": "110"}
        self.transcript = ""

    def types(self, line, *arguments, expected=0):
        ran = subprocess.run(
            self.command + list(arguments), executable=self.binary, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
        assert ran.returncode == expected, f"{line}: exit code {ran.returncode}\n{ran.stdout}"
        self.transcript += f"$ idempotency-ledger {line}\n{ran.stdout.rstrip()}\n\n"
        return ran.stdout


def walk(binary, database_url):
    with Running() as running:
        policy = running.path / "policy.toml"
        policy.write_text(POLICY)
        _, address = running.serve(binary, database_url, "--config", policy)
        poisoned = list(range(0, MESSAGES, POISON_EVERY))
        done = consume_all(address, list(range(MESSAGES)), broken=True)
        # The broker delivers again what was not acknowledged, until it is parked.
        for _ in range(3):
            consume_all(address, poisoned, broken=True)
        assert done == MESSAGES - len(poisoned)

        operator = Operator(binary, address)
        seen = operator.types("entries summary", "entries", "summary")
        assert re.search(r"PARKED\s+ATTEMPTS_EXHAUSTED\s+1,?000\b", seen), seen
        seen = operator.types(
            "entries list --consumer payments --state PARKED --limit 3",
            "entries", "list", "--consumer", "payments", "--state", "PARKED", "--limit", "3")
        assert "provider answered 502" in seen, seen
        first = re.search(r"order-\d{6}", seen).group()
        operator.types(f"entries get payments shop {first}", "entries", "get", "payments", "shop", first)
        filtered = ["entries", "redrive", "--consumer", "payments", "--state", "PARKED",
                    "--cause", "ATTEMPTS_EXHAUSTED", "--reason", "the provider is back"]
        operator.types(
            'entries redrive --consumer payments --state PARKED --cause ATTEMPTS_EXHAUSTED \\\n'
            '    --reason "the provider is back" --rate 1000 --operation-id provider-back --yes',
            *filtered, "--rate", "1000", "--operation-id", "provider-back", "--yes")
        # The provider is back: the dead-letter queue is replayed, and each is processed once.
        assert consume_all(address, poisoned, broken=False) == len(poisoned)
        assert consume_all(address, poisoned, broken=False) == 0
        seen = operator.types("entries summary", "entries", "summary")
        assert "PARKED" not in seen, seen
        seen = operator.types(
            "audit list --consumer payments --limit 2",
            "audit", "list", "--consumer", "payments", "--limit", "2")
        assert "REDRIVE" in seen and "the provider is back" in seen, seen
        return operator.transcript


def comparable(text):
    """Without what differs from run to run: instants, ages, versions, the order of equal instants, widths,
    and how often work of about a second tells how far it is."""
    text = re.sub(r"^.* to go\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "INSTANT", text)
    text = re.sub(r"\b(\d+(ms|[dhms])\b ?)+", "AGE ", text)
    text = re.sub(r"\((in )?AGE ?(ago)?\)", "(AGE)", text)
    text = re.sub(r"order-\d{6}", "order-N", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "HASH", text)
    text = re.sub(r"~?\b\d[\d,]{3,}\b", "N", text)
    text = re.sub(r"[-─═]{2,}", "-", text)
    lines = [re.sub(r"\s+", " ", line).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def main():
    if "--print" in sys.argv:
        sys.argv.remove("--print")
        chosen = options(__doc__)
        print(walk(pathlib.Path(chosen.binary), chosen.database_url).rstrip())
        return
    chosen = options(__doc__)
    printed = walk(pathlib.Path(chosen.binary), chosen.database_url)
    section = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    shown = section.strip().removeprefix("```text\n").removesuffix("```")
    if comparable(printed) != comparable(shown):
        print(printed)
        for ours, theirs in itertools.zip_longest(comparable(printed), comparable(shown)):
            if ours != theirs:
                sys.exit(f"docs/operations.md does not show what is printed:\n  printed: {ours}\n  page:    {theirs}\n"
                         "print it again: python tests/python/first_day.py --print")
    print(f"{MESSAGES} messages, {MESSAGES // POISON_EVERY} of them poisoned: found, understood and redriven; "
          "docs/operations.md shows it as printed")


if __name__ == "__main__":
    main()
