"""The programs that are measured, and those that measure."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time


def clean_environment():
    """Without settings that are meant for another server."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("IDEMPOTENCY_LEDGER_", "OTEL_"))}


def build(root, profile):
    """The ledger's program, as packages have it or, with the profile `dev`, as the tests have it; and the bare server."""
    features = ["--features", "crash-points"] if profile == "dev" else []
    command = ["cargo", "build", "--locked", "--profile", profile, *features, "--bin", "idempotency-ledger", "--example", "echo"]
    if subprocess.run(command, cwd=root, check=False).returncode != 0:
        raise SystemExit("tests/prove speed: the programs cannot be built")
    metadata = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps", "--locked"], cwd=root,
                              capture_output=True, text=True, check=True)
    # The profile `dev` has another folder.
    folder = os.path.join(json.loads(metadata.stdout)["target_directory"], {"dev": "debug"}.get(profile, profile))
    return os.path.join(folder, "idempotency-ledger"), os.path.join(folder, "examples", "echo")


class Listening:
    """A server that says in its first line where it listens."""

    def __init__(self, command, environment=None):
        began = time.monotonic()
        self.process = subprocess.Popen(command, env={**clean_environment(), **(environment or {})}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, process_group=0)
        line = self.process.stdout.readline()
        self.start_ms = (time.monotonic() - began) * 1e3
        _, found, self.address = line.strip().rpartition(" listens on ")
        if not found:
            self.stop()
            raise RuntimeError(f"{command[0]} does not listen; what it says stands above")

    @property
    def pid(self):
        return self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()


def ledger(binary, url, *more, environment=None):
    """Starts a server with metrics at a free port: where the default port is taken nothing is counted."""
    observed = [] if "--observe-listen" in more else ["--observe-listen", "127.0.0.1:0"]
    return Listening([binary, "serve", "--listen", "127.0.0.1:0", "--log", "error", "--database-url", url, *observed, *more], environment)


def migrate(binary, url):
    subprocess.run([binary, "migrate", "--log", "error", "--database-url", url], env=clean_environment(), check=True,
                   stdout=subprocess.DEVNULL)


def bench_command(binary, address, seconds, *more):
    warm_up = () if "--warm-up" in more else ("--warm-up", "0s")
    return [binary, "bench", "--json", "--no-check", "--endpoint", address, "--for", f"{int(seconds * 1000)}ms", *warm_up, *more]


@contextlib.contextmanager
def flood(binary, address, seconds, *more):
    """A background load that outlives the measured load."""
    process = subprocess.Popen(bench_command(binary, address, seconds, *more), env=clean_environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        yield process
        said, problem = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"the flood: {problem.strip()}")
        process.report = json.loads(said)
    finally:
        process.kill()
        process.wait()


def bench(binary, address, seconds, *more):
    """What `bench` measures, as its JSON says; nothing but the load reaches the server."""
    command = bench_command(binary, address, seconds, *more)
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[1:])}: {done.stderr.strip()}")
    return json.loads(done.stdout)


# What a team would write itself, without a ledger: old rows are deleted by the time of their claim.
TABLE = """
CREATE TABLE processed (
    consumer text NOT NULL, source text NOT NULL, id text NOT NULL, owner text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(), completed_at timestamptz, result bytea,
    PRIMARY KEY (consumer, source, id));
CREATE INDEX ON processed (claimed_at);
"""
ROW = "'bench-1', 'bench', gen_random_uuid()::text, 'bench-host-1234'"
INSERT = "INSERT INTO processed (consumer, source, id, owner)"
CLAIM = f"{INSERT} VALUES ({ROW}) ON CONFLICT DO NOTHING"
COMPLETE = "UPDATE processed SET completed_at = now(), result = '' WHERE consumer = 'bench-1' AND source = 'bench' AND id = :id;\n"
# A hundred rows a statement by one client: what rows cost without the cost of statements, of commits and of waking up.
ROWS = 100
SCRIPTS = {
    "claim": f"{CLAIM};\n",
    "pair": f"{CLAIM} RETURNING id \\gset\n{COMPLETE}",
    "rows": f"{INSERT} SELECT {ROW} FROM generate_series(1, {ROWS});\n",
}


def pgbench(cluster, database, script, clients, seconds):
    """Transactions, their rate and their mean latency."""
    file = cluster.home / f"{script}.sql"
    file.write_text(SCRIPTS[script])
    command = [cluster.programs / "pgbench", "-n", "-M", "prepared", "-f", file, "-c", str(clients), "-j", str(min(clients, 2)),
               "-T", str(round(seconds)), *cluster.address(), database]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    figures = {name: re.search(pattern, done.stdout) for name, pattern in {
        "count": r"transactions actually processed: (\d+)",
        "rate": r"tps = ([\d.]+) \(without",
        "mean": r"latency average = ([\d.]+) ms"}.items()}
    if done.returncode != 0 or not all(figures.values()):
        said = done.stderr.strip().splitlines()
        raise RuntimeError(f"pgbench with {clients} clients: {said[-1] if said else 'no transaction was done in time'}")
    return {"count": int(figures["count"][1]), "perSecond": float(figures["rate"][1]), "meanMicros": float(figures["mean"][1]) * 1e3}


def sqlite_rows(folder, seconds):
    """One-row transactions of one client, a second: the same table, as durable as the ledger's file."""
    connection = sqlite3.connect(os.path.join(folder, "rows.db"), isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE processed (consumer TEXT NOT NULL, source TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL,"
                       " claimed_at INTEGER NOT NULL, completed_at INTEGER, result BLOB, PRIMARY KEY (consumer, source, id)) WITHOUT ROWID")
    connection.execute("CREATE INDEX processed_claimed_at ON processed (claimed_at)")
    statement = ("INSERT INTO processed (consumer, source, id, owner, claimed_at) VALUES ('bench-1', 'bench', ?, 'bench-host-1234', ?)"
                 " ON CONFLICT DO NOTHING")
    ids = iter(lambda: os.urandom(16).hex(), None)
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        connection.execute(statement, (next(ids), count))
        count += 1
    rate = count / (time.monotonic() - began)
    connection.close()
    return {"count": count, "perSecond": rate}
