"""Three downstreams side by side, in one SQLite file that survives a kill -9.

plain          carries out every request, repeats included: it counts every effect.
fenced         keeps one effect per message, with the token of the claim that wrote it. A write with
               an older token is refused; a newer one overwrites. So it must be a downstream whose
               effect is a state that can be set again, not a payment.
deduplicating  drops an idempotency_key that it has seen, as payment and mail providers do.
"""

import sqlite3

SCHEMA = """
CREATE TABLE IF NOT EXISTS plain (id TEXT);
CREATE TABLE IF NOT EXISTS fenced (id TEXT PRIMARY KEY, token INTEGER);
CREATE TABLE IF NOT EXISTS refused (id TEXT, token INTEGER);
CREATE TABLE IF NOT EXISTS deduplicating (key TEXT PRIMARY KEY, id TEXT);
"""


class Sinks:
    NAMES = ("plain", "fenced", "deduplicating")

    def __init__(self, path):
        self.database = sqlite3.connect(path, timeout=10, isolation_level=None)
        self.database.executescript(SCHEMA)

    def plain(self, message_id):
        self.database.execute("INSERT INTO plain VALUES (?)", (message_id,))

    def fenced(self, message_id, token):
        written = self.database.execute(
            "INSERT INTO fenced VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET token = excluded.token"
            " WHERE excluded.token >= token", (message_id, token))
        if written.rowcount == 0:
            self.database.execute("INSERT INTO refused VALUES (?, ?)", (message_id, token))

    def deduplicating(self, message_id, idempotency_key):
        self.database.execute("INSERT OR IGNORE INTO deduplicating VALUES (?, ?)", (idempotency_key, message_id))

    def count(self, sink, message_id):
        assert sink in (*self.NAMES, "refused")
        return self.database.execute(f"SELECT count(*) FROM {sink} WHERE id = ?", (message_id,)).fetchone()[0]
