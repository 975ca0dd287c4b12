"""What differs between the databases that a guard may be in. Copy what you need: each has its own driver.

Every connection commits by itself, so that nothing but `begin` begins a transaction: an ORM or a driver that reads
something first would have taken a snapshot before the guard row is inserted. Take a connection for the guard alone.
"""

import sqlite3
import urllib.parse

LOCK_WAIT = 2  # seconds that a statement waits for a row lock of another session: far shorter than a lease
SILENCE = 10  # seconds without an answer after which a connection is given up


class Database:
    """One connection. `Error` is the driver's own."""

    MARK = "%s"
    BEGIN = "BEGIN"

    def __init__(self, url):
        self.url, self.connection = urllib.parse.urlsplit(url), None

    def open(self):
        """Connects, also where the connection was lost since it was last used."""
        try:
            if self.connection is not None:
                self.execute("SELECT 1").fetchall()
                return
        except self.Error:
            self.close()
        self.connection = self.connect()

    def begin(self):
        self.execute(self.BEGIN)

    def execute(self, sql, *values):
        """The `?` of the statement stand for the values. The cursor has the rows."""
        cursor = self.connection.cursor()
        cursor.execute(sql.replace("?", self.MARK), values)
        return cursor

    def insert_new(self, sql, *values):
        """False where the key was there: nothing was written then, and the transaction goes on."""
        return self.execute(f"{sql} ON CONFLICT (idempotency_key, replay_run) DO NOTHING", *values).rowcount == 1

    def commit(self):
        self.execute("COMMIT")

    def rollback(self):
        """Ends whatever is open. A connection that cannot do that is dropped, and the server rolls back."""
        try:
            if self.connection is not None and self.is_open():
                self.execute("ROLLBACK")
        except self.Error:
            self.close()

    def close(self):
        try:
            self.connection.close()
        except self.Error:
            pass  # it is lost already
        self.connection = None


class Postgres(Database):
    """READ COMMITTED: a conflict is seen and then read, though it was committed after this transaction began. Under
    REPEATABLE READ and SERIALIZABLE the insert that waited fails instead (40001), and the attempt is in vain."""

    BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"

    def __init__(self, url):
        import psycopg

        super().__init__(url)
        self.driver, self.Error = psycopg, psycopg.Error

    def connect(self):
        connection = self.driver.connect(self.url.geturl(), autocommit=True, connect_timeout=SILENCE,
                                         client_encoding="utf8", tcp_user_timeout=SILENCE * 1000)
        connection.execute(f"SET lock_timeout = '{LOCK_WAIT}s'")
        connection.execute(f"SET statement_timeout = '{SILENCE}s'")
        # A process that stands still must not keep others from the row for ever: its transaction is ended for it.
        connection.execute(f"SET idle_in_transaction_session_timeout = '{SILENCE}s'")
        return connection

    def is_open(self):
        return self.connection.info.transaction_status != self.driver.pq.TransactionStatus.IDLE


class MySql(Database):
    """MySQL and MariaDB. A plain INSERT, whose error for a duplicate key is caught: INSERT IGNORE would hide values
    that are cut or missing, and the count of ON DUPLICATE KEY UPDATE depends on a flag of the connection
    (CLIENT_FOUND_ROWS). That error ends the statement alone, and the transaction goes on.

    READ COMMITTED: under REPEATABLE READ, the default, a plain read after the duplicate may see an old snapshot."""

    BEGIN = "START TRANSACTION"
    DUPLICATE = 1062

    def __init__(self, url):
        import pymysql

        super().__init__(url)
        self.driver, self.Error = pymysql, pymysql.MySQLError

    def connect(self):
        where = dict(urllib.parse.parse_qsl(self.url.query))
        if "unix_socket" not in where:
            where = {"host": self.url.hostname, "port": self.url.port or 3306}
        connection = self.driver.connect(
            user=self.url.username, password=urllib.parse.unquote(self.url.password or ""), database=self.url.path[1:],
            charset="utf8mb4", binary_prefix=True, autocommit=True, connect_timeout=SILENCE, read_timeout=SILENCE,
            write_timeout=SILENCE, **where)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute(f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT}")
            # A name that is too long is an error, and not cut.
            cursor.execute("SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')")
        return connection

    def insert_new(self, sql, *values):
        try:
            self.execute(sql, *values)
        except self.driver.IntegrityError as error:
            if error.args[0] != self.DUPLICATE:
                raise
            return False
        return True

    def is_open(self):
        return True  # a ROLLBACK without a transaction does nothing here


class Sqlite(Database):
    """BEGIN IMMEDIATE: the one lock for writers is taken, or waited for, before anything is read."""

    MARK = "?"
    BEGIN = "BEGIN IMMEDIATE"
    Error = sqlite3.Error

    def connect(self):
        # The driver begins and commits nothing by itself; consumers may call it from a thread.
        connection = sqlite3.connect(self.url.path, timeout=LOCK_WAIT, isolation_level=None, check_same_thread=False)
        # A commit that was answered survives a loss of power, and readers do not keep the writer waiting.
        connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        return connection

    def is_open(self):
        return self.connection.in_transaction


def open_database(url):
    """`postgres://USER:PASSWORD@HOST/DATABASE`, `mysql://USER:PASSWORD@HOST/DATABASE` or `sqlite:/PATH`."""
    kinds = {"postgres": Postgres, "postgresql": Postgres, "mysql": MySql, "mariadb": MySql, "sqlite": Sqlite}
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in kinds:
        raise SystemExit(f"the database's URL begins with `{scheme}:`, and must begin with one of {', '.join(kinds)}")
    return kinds[scheme](url)
