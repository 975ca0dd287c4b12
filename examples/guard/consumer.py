"""A consumer whose effect is a row in its own database: `guard.py` lets it happen once.

It stands where a broker's client would be: each line that it reads is a delivery, a CloudEvent as JSON, and each line
that it writes says what becomes of that delivery: ACK, DEAD_LETTER, or RETRY_LATER and after how many seconds.

    sqlite3 shop.db < examples/guard/sqlite.sql && sqlite3 shop.db < examples/guard/payments.sql
    echo '{"source": "shop", "id": "order-1", "data": {"amount": 42}}' |
        python examples/guard/consumer.py --database sqlite:shop.db

How a process stops in good order is in examples/consumer/consumer.py.
"""

import argparse
import asyncio
import json
import os
import pathlib
import socket
import sys
import time
import uuid

import grpc

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(1, str(EXAMPLES))
import guard
from databases import open_database
from protocol import LeftOpen, handle, seconds
from reach import channel
from stubs import pb, rpc

OWNER = f"{socket.gethostname()}/{os.getpid()}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ledger", default=os.environ.get("IDEMPOTENCY_LEDGER_ENDPOINT", "127.0.0.1:50051"))
    parser.add_argument("--consumer", default="payments", help="the ledger's consumer")
    parser.add_argument("--replay-run", default="", help="the replay run that the deliveries belong to: see docs/replays.md")
    parser.add_argument("--database", required=True, help="sqlite:FILE, postgres://… or mysql://…")
    return parser.parse_args()


def pay(execute, event):
    """The effect: all of it in the guard's transaction. Returns the result, which names this very effect."""
    receipt = str(uuid.uuid4())
    execute("INSERT INTO payments (receipt, source, id, amount) VALUES (?, ?, ?, ?)",
            receipt, event["source"], event["id"], event["data"]["amount"])
    return receipt.encode()


async def deliver(event, consumer, ledger, database, replay_run=""):
    """The advice for one delivery, and the seconds to wait where it says to wait."""
    key = pb.EntryKey(consumer=consumer, source=event["source"], id=event["id"], replay_run=replay_run)
    began = time.monotonic()  # before the Claim: the hold has less time left than its answer says, never more

    async def process(acquired):
        claim = guard.Claim(
            acquired.idempotency_key, key.replay_run, key.consumer, key.source, key.id,
            token=acquired.token, until=began + seconds(acquired.hold))
        try:
            return await asyncio.to_thread(guard.once, database, claim, lambda execute: pay(execute, event))
        except guard.Undecided as error:
            print(f"{event['id']}: {error}", file=sys.stderr)
            raise LeftOpen from error
        except guard.WrongRow as error:
            raise SystemExit(f"ALERT: {error}") from error

    return await handle(ledger, pb.ClaimRequest(key=key, owner=OWNER), process)


async def main():
    options = arguments()
    ledger = rpc.LedgerServiceStub(channel(options.ledger, grpc.aio))
    database = open_database(options.database)
    while line := await asyncio.to_thread(sys.stdin.readline):
        advice, wait = await deliver(json.loads(line), options.consumer, ledger, database, options.replay_run)
        if advice == pb.ADVICE_ACK:
            print("ACK", flush=True)
        elif advice == pb.ADVICE_DEAD_LETTER:
            print("DEAD_LETTER", flush=True)
        else:  # RETRY_LATER, and any advice that this client does not know
            print(f"RETRY_LATER {wait:.3f}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
