"""A consumer whose effect is rows in its own SQL database: the package's guard lets it happen once.

Standard input stands for the broker: each line is a delivery, a CloudEvent as JSON. Standard output says what becomes of
that delivery: ACK, DEAD_LETTER, or RETRY_LATER and after how many seconds.

    pip install ./clients/python
    cat clients/python/src/idempotency_ledger/guard/sqlite.sql examples/guard/payments.sql | sqlite3 shop.db
    echo '{"source": "shop", "id": "order-1", "data": {"amount": 42}}' |
        python examples/guard/consumer.py --database sqlite:shop.db

How a process stops in good order is in examples/consumer/consumer.py.
"""

import argparse
import contextlib
import json
import sqlite3
import sys
import urllib.parse
import uuid

from idempotency_ledger import Advice, Connection, Doubtful, Key, Ledger, guard

SILENCE = 10  # seconds without an answer of the database after which its connection is given up


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ledger", help="HOST:PORT or https://HOST:PORT [default: LEDGER_ENDPOINT, or 127.0.0.1:50051]")
    parser.add_argument("--consumer", default="payments", help="the ledger's consumer")
    parser.add_argument("--replay-run", default="", help="the replay run that the deliveries belong to: see docs/replays.md")
    parser.add_argument("--database", required=True, help="sqlite:FILE, postgres://… or mysql://…")
    return parser.parse_args()


def connect(url):
    """A connection for the guard alone. It commits by itself, so that nothing but the guard begins a transaction. The
    driver bounds the waits for the network, and the guard those for locks."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "sqlite":
        connection = sqlite3.connect(parts.path, isolation_level=None)
        # A commit that was answered survives a loss of power, and readers do not keep the writer waiting.
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        return connection
    if parts.scheme == "mysql":
        import pymysql

        place = dict(urllib.parse.parse_qsl(parts.query)) or {"host": parts.hostname, "port": parts.port or 3306}
        return pymysql.connect(
            user=parts.username, password=urllib.parse.unquote(parts.password or ""), database=parts.path[1:], **place,
            charset="utf8mb4", binary_prefix=True, autocommit=True, connect_timeout=SILENCE, read_timeout=SILENCE,
            write_timeout=SILENCE)
    import psycopg

    return psycopg.connect(url, autocommit=True, connect_timeout=SILENCE, tcp_user_timeout=SILENCE * 1000,
                           client_encoding="utf8")


def pay(cursor, event):
    """The effect: all of it in the guard's transaction. Returns the result, which names this very effect."""
    receipt = str(uuid.uuid4())
    mark = "?" if isinstance(cursor, sqlite3.Cursor) else "%s"  # Drivers differ; a consumer has one of them.
    cursor.execute(f"INSERT INTO payments (receipt, source, id, amount) VALUES ({mark}, {mark}, {mark}, {mark})",
                   (receipt, event["source"], event["id"], event["data"]["amount"]))
    return receipt.encode()


def deliver(body, ledger, database, replay_run=""):
    """Processes one delivery; the outcome says what becomes of it."""
    event = None  # The key of what is not an event is at fault: its advice is DEAD_LETTER.
    with contextlib.suppress(ValueError):
        event = json.loads(body)
    key = Key.from_cloud_event(event, replay_run)

    def pay_once(claim):
        try:
            with contextlib.closing(connect(database)) as connection:  # Or one of a pool.
                return guard.once(connection, claim, lambda cursor: pay(cursor, event))
        except guard.WrongRow as error:  # Stop, settle nothing, and let a person look.
            raise SystemExit(f"ALERT: the guard row {claim.idempotency_key}: {error}") from error

    outcome = ledger.process(key, pay_once, body=body)
    if outcome.error:
        print(f"{key.id}: {outcome.error!r}: {outcome.error.__cause__}", file=sys.stderr)
    return outcome


def main():
    options = arguments()
    # Doubtful: where the database cannot be reached, nothing is settled. The next attempt finds out from the guard.
    with Ledger(options.consumer, Connection(options.ledger), unexpected=Doubtful) as ledger:
        for line in iter(sys.stdin.buffer.readline, b""):
            outcome = deliver(line.rstrip(b"\n"), ledger, options.database, options.replay_run)
            wait = f" {outcome.delay:.3f}" if outcome.advice is Advice.RETRY_LATER else ""
            print(f"{outcome.advice.value}{wait}", flush=True)


if __name__ == "__main__":
    main()
