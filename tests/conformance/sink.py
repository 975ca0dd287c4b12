"""Where subjects have their effects: it counts all of them, and what a fence and an idempotency key let through."""

from __future__ import annotations

import sqlite3
import threading

_SCHEMA = """
CREATE TABLE plain (id TEXT, token INTEGER);
CREATE TABLE fenced (id TEXT PRIMARY KEY, token INTEGER, writes INTEGER);
CREATE TABLE refused (id TEXT, token INTEGER);
CREATE TABLE keyed (key TEXT PRIMARY KEY, id TEXT);
"""


class Sink:
    """Three downstreams: plain, fenced by the token, and deduplicating by the idempotency key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._database.executescript(_SCHEMA)

    def effect(self, id: str, token: int, idempotency_key: str) -> None:
        """An effect arrives."""
        with self._lock:
            self._database.execute("INSERT INTO plain VALUES (?, ?)", (id, token))
            self._database.execute("INSERT OR IGNORE INTO keyed VALUES (?, ?)", (idempotency_key, id))
            written = self._database.execute(
                "INSERT INTO fenced VALUES (?, ?, 1) ON CONFLICT (id) DO UPDATE SET token = excluded.token,"
                " writes = writes + 1 WHERE excluded.token >= token", (id, token))
            if written.rowcount == 0:
                self._database.execute("INSERT INTO refused VALUES (?, ?)", (id, token))

    def count(self, table: str, id: str) -> int:
        """How many effects of a message one of the downstreams has."""
        assert table in ("plain", "fenced", "refused", "keyed")
        with self._lock:
            found = self._database.execute(f"SELECT count(*) FROM {table} WHERE id = ?", (id,)).fetchone()
        return int(found[0])
