"""Connections of the suite to the three databases, as the example makes them, and with the guard's bounds of waits. `places`
is imported before this."""

import consumer
from idempotency_ledger.guard._dialects import dialect_of


class Database:
    """The `?` of a statement stand for values. `Error` are the errors of the driver."""

    def __init__(self, url):
        self.connection = consumer.connect(url)
        self._dialect = dialect_of(self.connection)
        self._dialect.bound_waits()
        self.Error = self._dialect.errors
        self.begin, self.commit, self.rollback = self._dialect.begin, self._dialect.commit, self._dialect.roll_back

    def execute(self, sql, *values):
        """The cursor of a statement."""
        return self._dialect.execute(sql, values)

    def insert_new(self, sql, *values):
        """False where the key was there."""
        return self._dialect.insert_new(sql, values)

    def close(self):
        self.connection.close()
