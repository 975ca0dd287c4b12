"""A Postgres cluster to throw away, as safe as a real one: fsync and synchronous_commit are on."""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# No checkpoint comes by itself: each run has one before it, and none within it.
SETTINGS = """
fsync = on
synchronous_commit = on
full_page_writes = on
listen_addresses = '127.0.0.1'
max_connections = 300
checkpoint_timeout = 1d
max_wal_size = 16GB
logging_collector = off
log_min_messages = fatal
log_min_error_statement = panic
log_checkpoints = off
"""
# What docs/postgres.md advises, so that the indexes of a full table fit.
BUFFER_BYTES_OF_A_ROW = 100


def buffers_mib(rows):
    """The shared buffers for a table of so many rows; never more than a quarter of the memory."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(max(512 << 20, rows * BUFFER_BYTES_OF_A_ROW), memory // 4) >> 20


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def programs():
    """The folder of the server's programs: the one that is named, else the newest installed, else on the PATH."""
    named = os.environ.get("IDEMPOTENCY_LEDGER_TEST_PG_BIN")
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    on_path = shutil.which("initdb")
    home = named or (found and found[-1].parent) or (on_path and pathlib.Path(on_path).parent)
    if not home or not pathlib.Path(home, "pgbench").exists():
        raise SystemExit("tests/prove speed: Postgres with pgbench is missing: apt-get install -y postgresql, or name its "
                         "folder in IDEMPOTENCY_LEDGER_TEST_PG_BIN")
    return pathlib.Path(home)


def _as_postgres(command):
    """Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return command
    return ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", *command]


class Cluster:
    def __init__(self, rows, settings=""):
        """For tables of this number of rows; `settings` are lines of postgresql.conf."""
        self.settings = SETTINGS + settings
        self.programs = programs()
        self.buffers_mib = buffers_mib(rows)
        # Not /tmp, which may lie in memory.
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="ledger-speed.", dir="/var/tmp"))
        self.process = None
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self):
        if os.geteuid() == 0:
            shutil.chown(self.home, "postgres", "postgres")
        data = self.home / "data"
        made = subprocess.run(
            _as_postgres([self.programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"]),
            cwd="/", capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise SystemExit(f"tests/prove speed: initdb failed:\n{made.stderr}")
        self.port = free_port()
        with open(data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write(f"{self.settings}shared_buffers = {self.buffers_mib}MB\nport = {self.port}\nunix_socket_directories = '{self.home}'\n")
        # A child in its own process group: a Ctrl-C ends the run first.
        with open(self.home / "log", "wb") as log:
            self.process = subprocess.Popen(_as_postgres([self.programs / "postgres", "-D", data]), cwd="/", stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, process_group=0)
        for _ in range(600):
            if subprocess.run([self.programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False).returncode == 0:
                break
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        if self.process.poll() is not None:
            raise SystemExit(f"tests/prove speed: Postgres did not start:\n{(self.home / 'log').read_text()}")
        self.version = self.ask("postgres", "SHOW server_version").split()[0]

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    @property
    def pid(self):
        return self.process.pid

    def address(self):
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]

    def url(self, database):
        return f"postgres://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def ask(self, database, statement):
        """The answer as plain text."""
        done = subprocess.run([self.programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", *self.address(), "-d", database, "-c", statement],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{statement}: {done.stderr.strip()}")
        return done.stdout.strip()

    @contextlib.contextmanager
    def set(self, name, value):
        """A setting of all sessions, for a while."""
        self.ask("postgres", f"ALTER SYSTEM SET {name} = '{value}'")
        self.ask("postgres", "SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self.ask("postgres", f"ALTER SYSTEM RESET {name}")
            self.ask("postgres", "SELECT pg_reload_conf()")

    def fresh(self, name):
        """An empty database; the run that follows finds no page that an earlier one has dirtied."""
        self.ask("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.ask("postgres", f"CREATE DATABASE {name}")
        return name

    def checkpoint(self):
        self.ask("postgres", "CHECKPOINT")

    def wal_bytes(self):
        return int(self.ask("postgres", "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))

    def pages(self, database):
        """The number of page touches of tables and indexes by ended sessions: a session reports its count when it ends."""
        count = None
        for _ in range(100):
            sessions = int(self.ask("postgres", f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{database}'"))
            last, count = count, int(self.ask("postgres", f"SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = '{database}'"))
            if sessions == 0 and last == count:
                break
            time.sleep(0.05)
        return count
