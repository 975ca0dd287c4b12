"""What differs between the databases that a guard may be in, and their drivers."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Tuple, Type

from ..errors import InvalidField

LOCK_WAIT = 2
"""Seconds that a statement waits for a row of another transaction: far shorter than a lease."""
SILENCE = 10
"""Seconds after which the server ends a statement, or the transaction of a process that stands still."""


class Dialect:
    """One connection, by which nothing else writes."""

    file = ""
    mark = "%s"
    begins = "BEGIN"
    waits: Tuple[str, ...] = ()

    def __init__(self, connection: Any, driver: Any) -> None:
        self.connection = connection
        self.driver = driver
        self.errors: Tuple[Type[Exception], ...] = (driver.Error,)

    def check(self) -> None:
        """Raises `InvalidField` where the guard could not be the first and only one to use a transaction, or would send
        names in other bytes; the driver's error where the connection is closed, which is not the program's fault."""
        if self.is_closed():
            raise self.driver.InterfaceError("the connection is closed")
        if not self.commits_by_itself():
            raise InvalidField("connection", "must commit by itself: only the guard begins and ends a transaction")
        if self.is_open():
            raise InvalidField("connection", "has an open transaction: the guard row must be its first statement")
        if not self.is_utf8():
            raise InvalidField("connection", "must use UTF-8, in MySQL utf8mb4: names are compared as bytes")

    def commits_by_itself(self) -> bool:
        """No statement but the guard's begins a transaction: a driver's own would read before the guard row."""
        return bool(self.connection.autocommit)

    def is_open(self) -> bool:
        """A transaction is open."""
        raise NotImplementedError

    def is_closed(self) -> bool:
        """The connection was closed or lost, as far as the driver knows."""
        return bool(self.connection.closed)

    def is_utf8(self) -> bool:
        """Text is sent in UTF-8."""
        return True

    def cursor(self) -> Any:
        """A new cursor."""
        return self.connection.cursor()

    def execute(self, sql: str, values: Tuple[Any, ...] = ()) -> Any:
        """The cursor of a statement whose `?` stand for the values."""
        cursor = self.cursor()
        cursor.execute(sql.replace("?", self.mark), values)
        return cursor

    def bound_waits(self) -> None:
        """Bounds every wait of the session: a guard that waits for ever is a consumer that stands still."""
        for statement in self.waits:
            self.execute(statement)

    def begin(self) -> None:
        """Begins the transaction."""
        self.execute(self.begins)

    def insert_new(self, sql: str, values: Tuple[Any, ...]) -> bool:
        """False where the key was there: nothing was written then, and the transaction goes on."""
        inserted = self.execute(f"{sql} ON CONFLICT (idempotency_key, replay_run) DO NOTHING", values)
        return bool(inserted.rowcount == 1)

    def commit(self) -> None:
        """Commits; an error leaves it unknown whether it did."""
        self.execute("COMMIT")

    def roll_back(self) -> None:
        """Ends what is open. A connection that cannot do that is closed, so that the server rolls back."""
        try:
            if self.is_open():
                self.execute("ROLLBACK")
        except self.errors:
            with contextlib.suppress(*self.errors):
                self.connection.close()


class Postgres(Dialect):
    """READ COMMITTED: a conflict is seen and then read, though it was committed after this transaction began."""

    file = "postgres.sql"
    begins = "BEGIN ISOLATION LEVEL READ COMMITTED"
    waits = (
        f"SET lock_timeout = '{LOCK_WAIT}s'",
        f"SET statement_timeout = '{SILENCE}s'",
        f"SET idle_in_transaction_session_timeout = '{SILENCE}s'",
    )

    def is_open(self) -> bool:
        idle = self.driver.pq.TransactionStatus.IDLE
        return bool(self.connection.info.transaction_status != idle)

    def is_utf8(self) -> bool:
        # psycopg sends UTF-8 for the client encoding SQL_ASCII, which it names ascii.
        return self.connection.info.encoding in ("utf-8", "ascii")


class MySql(Dialect):
    """MySQL and MariaDB: a plain INSERT, whose error for a duplicate ends the statement alone. INSERT IGNORE would hide
    values that are cut, and the count of ON DUPLICATE KEY UPDATE depends on a flag of the connection."""

    file = "mysql.sql"
    begins = "START TRANSACTION"
    duplicate = 1062
    in_transaction = 1  # SERVER_STATUS_IN_TRANS of the protocol
    waits = (
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT}",
        # A name that is too long is an error, and not cut.
        "SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
    )

    def commits_by_itself(self) -> bool:
        return bool(self.connection.get_autocommit())

    def is_open(self) -> bool:
        return bool(self.connection.server_status & self.in_transaction)

    def is_closed(self) -> bool:
        return not self.connection.open

    def is_utf8(self) -> bool:
        return bool(self.connection.charset == "utf8mb4")

    def insert_new(self, sql: str, values: Tuple[Any, ...]) -> bool:
        try:
            self.execute(sql, values)
        except self.driver.IntegrityError as error:
            if error.args[0] != self.duplicate:
                raise
            return False
        return True


class Sqlite(Dialect):
    """BEGIN IMMEDIATE: the one lock of writers is taken, or waited for, before anything is read."""

    file = "sqlite.sql"
    mark = "?"
    begins = "BEGIN IMMEDIATE"
    waits = (f"PRAGMA busy_timeout = {LOCK_WAIT * 1000}",)

    def is_closed(self) -> bool:
        return False  # The driver raises its own error where it is.

    def commits_by_itself(self) -> bool:
        return self.connection.isolation_level is None

    def is_open(self) -> bool:
        return bool(self.connection.in_transaction)


_DIALECTS: Dict[str, Type[Dialect]] = {"sqlite3": Sqlite, "psycopg": Postgres, "pymysql": MySql}


def dialect_of(connection: Any) -> Dialect:
    """The dialect of a connection, by the driver that it is of."""
    for base in type(connection).__mro__:
        name = base.__module__.split(".")[0]
        if name in _DIALECTS:
            return _DIALECTS[name](connection, sys.modules[name])
    raise InvalidField("connection", f"is of {type(connection).__module__}, and must be of sqlite3, psycopg or pymysql")
