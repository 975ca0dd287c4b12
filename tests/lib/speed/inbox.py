"""Receivers that store messages, and workers that take them: each a process, so that their CPU time is not the server's.

    python tests/lib/speed/inbox.py store ADDRESS CONSUMER FIRST COUNT       stores messages in batches
    python tests/lib/speed/inbox.py work ADDRESS CONSUMER MAX SECONDS        takes and completes messages, and prints how many
"""

import pathlib
import sys
import time
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "clients" / "python" / "src"))
import grpc  # noqa: E402
from idempotency_ledger._proto import ledger_pb2 as pb  # noqa: E402
from idempotency_ledger._proto import ledger_pb2_grpc  # noqa: E402

BATCH = 1_000
PAYLOAD = b"x" * 200
LEASE = 30  # seconds
PATIENCE = 60  # seconds that a call may take


def stored(ledger, consumer, first, count):
    """Stores messages whose ids are the numbers from `first` on."""
    for start in range(first, first + count, BATCH):
        requests = [
            pb.StoreRequest(key=pb.EntryKey(consumer=consumer, source="backlog", id=str(number)), message=pb.Message(payload=PAYLOAD))
            for number in range(start, min(start + BATCH, first + count))]
        for answer in ledger.BatchStore(pb.BatchStoreRequest(requests=requests), timeout=PATIENCE).responses:
            if answer.WhichOneof("verdict") not in ("stored", "already_stored"):
                raise SystemExit(f"a message was not stored: {answer}")


def worked(ledger, consumer, maximum, seconds):
    """Completes what is handed out, until the time is over; returns the number of messages."""
    count, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        request = pb.ClaimNextRequest(consumer=consumer, claim_id=str(uuid.uuid4()), owner="backlog", max=maximum)
        request.lease.FromSeconds(LEASE)
        handed = ledger.ClaimNext(request, timeout=PATIENCE).messages
        settlements = [pb.Settlement(complete=pb.CompleteRequest(key=each.key, token=each.acquired.token)) for each in handed]
        if not settlements:
            continue
        for answer in ledger.BatchSettle(pb.BatchSettleRequest(settlements=settlements), timeout=PATIENCE).results:
            if answer.WhichOneof("outcome") != "complete":
                raise SystemExit(f"a message was not completed: {answer}")
        count += len(handed)
    return count


def main():
    what, address, consumer, *numbers = sys.argv[1:]
    with grpc.insecure_channel(address) as channel:
        ledger = ledger_pb2_grpc.LedgerServiceStub(channel)
        if what == "store":
            stored(ledger, consumer, *map(int, numbers))
        else:
            maximum, seconds = map(int, numbers)
            print(worked(ledger, consumer, maximum, seconds))


if __name__ == "__main__":
    main()
