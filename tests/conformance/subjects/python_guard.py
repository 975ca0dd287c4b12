"""A subject whose effect is a row in a SQL database, behind the package's guard: the step `effect` is its transaction."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import threading
import urllib.parse
from typing import Any

import idempotency_ledger as il
from idempotency_ledger import guard
from python import failed, finished, say, started

going: dict[str, threading.Semaphore] = {}


def connect(url: str) -> Any:
    """A connection for the guard alone, which commits by itself."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "sqlite":
        return sqlite3.connect(parts.path, isolation_level=None)
    if parts.scheme == "mysql":
        import pymysql

        socket = dict(urllib.parse.parse_qsl(parts.query))["unix_socket"]
        return pymysql.connect(user=parts.username, database=parts.path[1:], unix_socket=socket, charset="utf8mb4",
                               binary_prefix=True, autocommit=True)
    import psycopg

    return psycopg.connect(url, autocommit=True)


def process(ledger: il.Ledger, command: dict[str, Any]) -> None:
    call, id = command["call"], command["id"]
    go = going.setdefault(call, threading.Semaphore(0))

    def pay(cursor: Any) -> bytes:
        mark = "?" if os.environ["DATABASE_URL"].startswith("sqlite") else "%s"
        cursor.execute("INSERT INTO payments (receipt, source, id, amount) VALUES "
                       f"({mark}, {mark}, {mark}, {mark})", (f"{call}-{os.getpid()}", "shop", id, 1))
        say("effect", call=call, id=id, token="0", idempotency_key=id)  # Amid the transaction.
        go.acquire()
        return f"{call}-{os.getpid()}".encode()

    def handle(claim: il.Claim) -> bytes:
        started(claim, call)
        connection = connect(os.environ["DATABASE_URL"])
        try:
            return guard.once(connection, claim, pay)
        finally:
            connection.close()

    try:
        finished(call, ledger.process(il.Key.of("shop", id), handle, wait=command.get("wait", 0)))
    except Exception as error:
        failed(call, error)


def main() -> None:
    ledgers: dict[str, il.Ledger] = {}
    say("ready")
    for line in iter(sys.stdin.readline, ""):
        command = json.loads(line)
        if command["do"] == "open":
            ledgers[command["ledger"]] = il.Ledger(command["consumer"], il.Connection(command["endpoint"]))
            say("opened")
        elif command["do"] == "process":
            threading.Thread(target=process, args=(ledgers[command["ledger"]], command)).start()
        elif command["do"] == "go":
            going.setdefault(command["call"], threading.Semaphore(0)).release()


if __name__ == "__main__":
    main()
