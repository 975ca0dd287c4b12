"""The scenarios, run one at a time: each on a fresh database, warmed up, with the cost of an item."""

import contextlib
import pathlib
import shutil
import tempfile
import time

from speed import machine, programs
from speed.credentials import Credentials

BATCH = 100
BATCHES_IN_FLIGHT = 8
CONNECTIONS = 4
# The most disk space that an entry of a full table needs, with its share of the indexes and the log.
BYTES_OF_A_ROW = 1_500
ENTRIES = "SELECT count(*) FROM ledger.entries"
SIZE = ("SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'ledger' AND c.relkind IN ('r', 'm', 'p')")
# Asks whether the upkeep has read all entries.
REACHED = ("SELECT NOT EXISTS (SELECT 1 FROM ledger.consumers n CROSS JOIN LATERAL"
           " (SELECT 1 FROM ledger.entries e WHERE e.consumer = n.no AND e.created_at > n.marked_at LIMIT 1) AS beyond)")
# A run of claims leaves a million of them open, as no consumer does: the upkeep would mark them, one by one, while the next run
# is measured. So they are completed, and marked as read by the upkeep.
SETTLE = ("UPDATE ledger.entries e SET version = e.version + 1, state = 4, closed_by = 1, attention = NULL, updated_at = ledger.clock()"
          " FROM ledger.consumers n WHERE e.consumer = n.no AND e.created_at > n.marked_at AND e.state = 2;"
          " UPDATE ledger.consumers SET marked_at = ledger.clock()")
# The whole index of the keys, as a server that has run for long has it in memory: what was run before has displaced it, and the
# runs of a round would differ by a third.
WARM = ("SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0;"
        " SELECT count(key) FROM ledger.entries WHERE key >= '00000000-0000-0000-0000-000000000000'")
# Postgres as it is with a slow disk: each statement that writes claims takes this much longer, without using CPU time.
SLOW_SECONDS = 0.1
SLOW = ("CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_sleep({SLOW_SECONDS}); RETURN NULL; END $$;"
        " CREATE TRIGGER slow BEFORE INSERT ON ledger.entries FOR EACH STATEMENT EXECUTE FUNCTION public.slow()")
# The most seconds that the upkeep may take to read all entries.
UPKEEP_MAX = 1_800
DAY_MICROS = 86_400_000_000
# Seconds of idleness before the memory of a server is read.
REST = 60
# A page goes whole into the log once between two checkpoints, which are five minutes apart where nothing else is said: a run
# of a few seconds would see little else.
FULL_SECONDS = 20


class Stage:
    """The resources of all scenarios; `run` runs one of them."""

    def __init__(self, cluster, ledger, echo, seconds, rows):
        self.cluster, self.ledger, self.echo = cluster, ledger, echo
        self.seconds, self.rows = seconds, rows
        self.others = 0.0  # of the machine, in the last measured stretch
        self._full = {}
        self._credentials = None

    @property
    def credentials(self):
        if self._credentials is None:
            self._credentials = Credentials(self.ledger)
        return self._credentials

    def run(self, name):
        return SCENARIOS[name][1](self)

    @contextlib.contextmanager
    def measured(self, figures, server=None, postgres=True):
        """Adds to `figures` the cost of an item within the block; the block must set `figures["items"]`."""
        pids = {"server": server, "postgres": self.cluster.pid if postgres else None}
        before = {name: machine.cpu_seconds(pid) for name, pid in pids.items() if pid}
        wal = self.cluster.wal_bytes() if postgres else None
        snapshot = machine.Snapshot.now()
        yield
        self.others = snapshot.others_since()
        items = max(figures["items"], 1)
        for name, seconds in before.items():
            figures[f"{name}_us"] = (machine.cpu_seconds(pids[name]) - seconds) * 1e6 / items
        if wal is not None:
            figures["wal"] = (self.cluster.wal_bytes() - wal) / items

    def load(self, server, figures, in_flight, *more, workload="claim", batch=1, connections=CONNECTIONS, ids="random", seconds=None,
             scheme="http://"):
        """Runs `bench` and adds its report to `figures`."""
        shown = programs.bench(
            self.ledger, scheme + server.address, seconds or self.seconds, "--workload", workload, "--in-flight", str(in_flight),
            "--batch", str(batch), "--connections", str(max(connections, -(-in_flight // 256))), "--ids", ids, *more)
        first, last = ("Claim", "Complete") if batch == 1 else ("BatchClaim", "BatchSettle")
        calls = shown["calls"]
        counted = calls.get(last if workload == "pair" else first, {"answered": 0})
        figures.update(rate=shown["perSecond"], items=counted["answered"] * batch, created=shown["created"],
                    client_us=shown["client"]["cpuSeconds"] * 1e6 / max(shown["count"], 1), refused=sum(shown["refused"].values()))
        figures.update({name: calls[first][name] for name in ("p50", "p99", "mean")})
        if "refused" in calls:
            figures["p99_refused"] = calls["refused"]["p99"]

    def database(self, name="measured"):
        """An empty ledger in Postgres, as a URL."""
        url = self.cluster.url(self.cluster.fresh(name))
        programs.migrate(self.ledger, url)
        self.cluster.checkpoint()
        return url

    def full(self, ids):
        """A ledger with as many entries as asked for, filled once; none is open, and the index of keys is in memory."""
        name = f"full_{ids}"
        if ids not in self._full:
            self._full[ids] = self._filled(name, ids)
        self.cluster.ask(name, SETTLE)
        # Else autovacuum does it while something is measured, as it does once after so many changes.
        self.cluster.ask(name, "VACUUM ANALYZE ledger.entries")
        self.cluster.ask(name, WARM)
        return self._full[ids]

    def room_for_rows(self):
        """Fails if the disk lacks room for the table."""
        free = shutil.disk_usage(self.cluster.home).free
        if free < self.rows * BYTES_OF_A_ROW:
            raise RuntimeError(f"{self.rows} rows need {self.rows * BYTES_OF_A_ROW / 1e9:.0f} GB in {self.cluster.home.parent}, and "
                               f"{free / 1e9:.0f} GB are free; --rows asks for fewer")

    def _filled(self, name, ids):
        self.room_for_rows()
        url = self.database(name)
        with programs.ledger(self.ledger, url) as server:
            # Completed, as nearly all of a real table is: claims that stay open are counted for the metrics, one by one.
            self.fill(server, self.rows, "pair", ids)
            # A minute later the server reads each entry again, and its counts read the entries it has not reached.
            self.until(name, REACHED)
        return url

    def until(self, database, statement):
        """Waits until the answer is yes."""
        ends = time.monotonic() + UPKEEP_MAX
        while self.cluster.ask(database, statement) != "t":
            if time.monotonic() > ends:
                raise RuntimeError(f"after {UPKEEP_MAX} s this was not so yet: {statement}")
            time.sleep(1)

    def fill(self, server, rows, workload, ids="random", *more):
        made, seconds = 0, 1
        while made < rows:
            figures = {}
            self.load(server, figures, BATCHES_IN_FLIGHT, *more, workload=workload, batch=BATCH, ids=ids, seconds=seconds)
            made += figures["created"]
            seconds = min(60, max(0.2, (rows - made) / max(figures["rate"], 1)))


# Spans go to a server that accepts them and drops them.
TRACED = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"}


def traced(in_flight):
    """A load on a ledger that records one call of a hundred."""
    def run(stage):
        with programs.Listening([stage.echo]) as collector:
            return service(in_flight, environment={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}", **TRACED})(stage)
    return run


def service(in_flight, settings=(), environment=None, known_by=(), **load):
    """A load on a ledger over Postgres, whose callers are known by these credentials."""
    def run(stage):
        figures, url = {}, stage.database()
        server_flags, flags, scheme = stage.credentials.of(known_by) if known_by else ([], [], "http://")
        empty = int(stage.cluster.ask("measured", SIZE))
        pages = stage.cluster.pages("measured")
        with programs.ledger(stage.ledger, url, *settings, *server_flags, environment=environment) as server:
            stage.load(server, {}, in_flight, *flags, seconds=min(1, stage.seconds / 2), scheme=scheme, **load)
            peak = machine.PeakMemory(server.pid)
            with stage.measured(figures, server.pid):
                stage.load(server, figures, in_flight, *flags, scheme=scheme, **load)
            figures["rss_mib"] = peak.end()
        figures["disk"] = (int(stage.cluster.ask("measured", SIZE)) - empty) / max(1, int(stage.cluster.ask("measured", ENTRIES)))
        # Of the statements before the measured stretch, too: all of them are the same.
        figures["pages"] = (stage.cluster.pages("measured") - pages) / max(1, int(stage.cluster.ask("measured", ENTRIES)))
        return figures
    return run


def sqlite(in_flight, **load):
    """A load on a ledger over a SQLite file."""
    def run(stage):
        figures, folder = {}, pathlib.Path(tempfile.mkdtemp(prefix="ledger-speed.", dir="/var/tmp"))
        try:
            with programs.ledger(stage.ledger, f"sqlite://{folder}/ledger.db") as server:
                stage.load(server, {}, in_flight, seconds=min(1, stage.seconds / 2), **load)
                with stage.measured(figures, server.pid, postgres=False):
                    stage.load(server, figures, in_flight, **load)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return figures
    return run


def sqlite_rows(stage):
    figures, folder = {}, tempfile.mkdtemp(prefix="ledger-speed.", dir="/var/tmp")
    try:
        with stage.measured(figures, postgres=False):
            shown = programs.sqlite_rows(folder, stage.seconds)
            figures.update(items=shown["count"], rate=shown["perSecond"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return figures


def pgbench(script, clients, rows=1):
    """A script of pgbench, which writes so many rows a transaction."""
    def run(stage):
        figures, database = {}, stage.cluster.fresh("measured")
        stage.cluster.ask(database, programs.TABLE)
        stage.cluster.checkpoint()
        # It counts in whole seconds, of which its connections take a part.
        with contextlib.suppress(RuntimeError):
            programs.pgbench(stage.cluster, database, script, clients, 3)
        with stage.measured(figures):
            shown = programs.pgbench(stage.cluster, database, script, clients, max(5, stage.seconds))
            figures.update(items=shown["count"] * rows, rate=shown["perSecond"] * rows, mean=shown["meanMicros"])
        written = int(stage.cluster.ask(database, "SELECT count(*) FROM processed"))
        figures["disk"] = int(stage.cluster.ask(database, "SELECT pg_total_relation_size('processed')")) / max(1, written)
        return figures
    return run


def echo(in_flight, **load):
    def run(stage):
        figures = {}
        with programs.Listening([stage.echo]) as server:
            stage.load(server, {}, in_flight, seconds=min(1, stage.seconds / 2), **load)
            with stage.measured(figures, server.pid, postgres=False):
                stage.load(server, figures, in_flight, **load)
        return figures
    return run


def full(ids, wal_compression="off"):
    """Claims on a full table, the first seconds after a checkpoint: each page that is touched first goes whole into the log."""
    def run(stage):
        figures, url = {"rows": stage.rows}, stage.full(ids)
        with stage.cluster.set("wal_compression", wal_compression), programs.ledger(stage.ledger, url) as server:
            stage.load(server, {}, 256, ids=ids, seconds=min(1, stage.seconds / 2))
            stage.cluster.checkpoint()
            with stage.measured(figures, server.pid):
                stage.load(server, figures, 256, ids=ids, seconds=max(FULL_SECONDS, stage.seconds))
        return figures
    return run


def purge(stage):
    """Claims during a purge that cannot keep up: the store's clock is put forward beyond all retentions."""
    figures, url = {}, stage.database()
    # More than a purge has taken in this time on any machine so far.
    wanted = round(max(20_000, 75_000 * stage.seconds))
    with programs.ledger(stage.ledger, url) as server:
        stage.fill(server, wanted, "pair")
    stage.cluster.ask("measured", "ALTER FUNCTION ledger.clock() RENAME TO clock_as_installed")
    stage.cluster.ask("measured", "CREATE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE AS $$ SELECT"
                      f" ledger.clock_as_installed() + {40 * DAY_MICROS} $$")
    stage.cluster.ask("measured", "VACUUM ANALYZE ledger.entries")
    stage.cluster.checkpoint()
    with programs.ledger(stage.ledger, url, "--purge-every", "100ms") as server:
        before = int(stage.cluster.ask("measured", ENTRIES))
        began = time.monotonic()
        with stage.measured(figures, server.pid):
            stage.load(server, figures, 256)
        after = int(stage.cluster.ask("measured", ENTRIES))
        figures["purged"] = (before + figures["created"] - after) / (time.monotonic() - began)
    if after <= figures["created"]:
        raise RuntimeError(f"the purge had nothing left to do within {stage.seconds} s: {before} entries were not enough")
    return figures


def overload(stage):
    """10,000 calls, which Postgres cannot follow: more of them are under way than the queue has room for, and those are refused.

    At first they all begin at the same instant, and are read one after the other: that second is not measured."""
    figures, url = {}, stage.database()
    stage.cluster.ask("measured", SLOW)
    with programs.ledger(stage.ledger, url) as server:
        with stage.measured(figures, server.pid):
            stage.load(server, figures, 10_000, "--warm-up", "1s")
            figures["items"] = figures["created"]
    if not figures["refused"]:
        raise RuntimeError("none was refused: there was room for all calls")
    return figures


# A consumer with little to do, whose own p99 is reported.
FEW = ("--workload", "claim", "--rate", "200", "--in-flight", "64")
FLOOD = ("--workload", "claim", "--batch", "1000", "--in-flight", "32", "--connections", "32", "--first-consumer", "1000")


def flood(stage):
    """The claims of a consumer while nothing else happens, and while another one sends batches of 1,000 on 32 connections."""
    figures, url = {}, stage.database()
    with programs.ledger(stage.ledger, url) as server:
        programs.bench(stage.ledger, server.address, min(1, stage.seconds / 2), *FEW)
        calm = programs.bench(stage.ledger, server.address, stage.seconds, *FEW)
        with stage.measured(figures, server.pid):
            with programs.flood(stage.ledger, server.address, stage.seconds + 2, *FLOOD) as flooding:
                time.sleep(1)
                flooded = programs.bench(stage.ledger, server.address, stage.seconds, *FEW)
            figures.update(items=flooding.report["created"], rate=flooding.report["perSecond"])
    figures.update(calm_p99=calm["calls"]["Claim"]["p99"], p99=flooded["calls"]["Claim"]["p99"])
    return figures


def given_back(stage):
    """The memory of a server under load, and a minute after 10,000 concurrent calls."""
    figures, url = {}, stage.database()
    with programs.ledger(stage.ledger, url) as server:
        stage.load(server, {}, 256)
        time.sleep(REST)
        figures["before_mib"] = machine.resident_mib(server.pid)
        with stage.measured(figures, server.pid):
            stage.load(server, figures, 10_000)
        time.sleep(REST)
        figures["rss_mib"] = machine.resident_mib(server.pid)
    return figures


def start(stage):
    """How soon a server listens whose schema is there, and what it takes without a call."""
    url = stage.database()
    with programs.ledger(stage.ledger, url):
        pass
    began = machine.Snapshot.now()
    with programs.ledger(stage.ledger, url) as server:
        time.sleep(1)
        figures = {"items": 1, "start_ms": server.start_ms, "rss_mib": machine.resident_mib(server.pid)}
    stage.others = began.others_since()
    return figures


# The order within a round: runs that are compared follow each other, or nearly so. The speed of a machine changes
# within minutes: claims with 256 in flight, with which much is compared, run three times.
SCENARIOS = {
    "pgbench-1": ("pgbench, 1 client, one row", pgbench("claim", 1)),
    "echo-1": ("bare echo, 1 in flight", echo(1)),
    "claim-1": ("Claim, 1 in flight", service(1)),
    "pgbench-rows": ("pgbench, 1 client, 100 rows a statement", pgbench("rows", 1, programs.ROWS)),
    "batch-claim": ("BatchClaim of 100, 8 in flight", service(BATCHES_IN_FLIGHT, batch=BATCH)),
    "pgbench-64": ("pgbench, 64 clients, one row", pgbench("claim", 64)),
    "claim-64": ("Claim, 64 in flight", service(64)),
    "uncoalesced": ("Claim, 256 in flight, --batch-max 1 --sessions 32", service(256, ("--batch-max", "1", "--sessions", "32"))),
    "echo-256": ("bare echo, 256 in flight", echo(256)),
    "claim-256": ("Claim, 256 in flight", service(256)),
    "claim-10000": ("Claim, 10,000 in flight", service(10_000)),
    "overload": (f"Claim, 10,000 in flight, Postgres {SLOW_SECONDS * 1e3:.0f} ms slower", overload),
    "claim-1024": ("Claim, 1,024 in flight", service(1_024)),
    "claim-512": ("Claim, 512 in flight", service(512)),
    "claim-2048": ("Claim, 2,048 in flight", service(2_048)),
    "claim-4096": ("Claim, 4,096 in flight", service(4_096)),
    "claim-8192": ("Claim, 8,192 in flight", service(8_192)),
    "echo-batch": ("bare echo, batches of 100, 8 in flight", echo(BATCHES_IN_FLIGHT, batch=BATCH)),
    "duplicates": ("Claim, 256 in flight, 90 % completed", service(256, workload="duplicates=90%")),
    "connections": ("Claim, 256 in flight on 256 connections", service(256, connections=256)),
    "claim-256-2": ("Claim, 256 in flight, a second time", service(256)),
    "unseen": ("Claim, 256 in flight, nothing counted", service(256, ("--observe-listen", "off"))),
    "traced": ("Claim, 256 in flight, one of a hundred traced", traced(256)),
    "unseen-again": ("Claim, 256 in flight, nothing counted, again", service(256, ("--observe-listen", "off"))),
    "trusted": ("Claim, 256 in flight, counted, TLS, a token, rights", service(256, known_by=("tls", "token"))),
    "tls": ("Claim, 256 in flight, TLS", service(256, known_by=("tls",))),
    "token": ("Claim, 256 in flight, a token, rights", service(256, known_by=("token",))),
    "web-token": ("Claim, 256 in flight, a web token, rights", service(256, known_by=("web-token",))),
    "pair-256": ("claim + complete, 256 in flight", service(256, workload="pair")),
    "pgbench-pairs": ("pgbench, 64 clients, insert and update", pgbench("pair", 64)),
    "batch-pair": ("claim + complete, batches of 100, 8 in flight", service(BATCHES_IN_FLIGHT, workload="pair", batch=BATCH)),
    "hot-1": ("Claim of one hot key, 64 in flight", service(64, workload="hot-keys=1")),
    "hot-100": ("Claim of 100 hot keys, 64 in flight", service(64, workload="hot-keys=100")),
    "sqlite-64": ("Claim on SQLite, 64 in flight", sqlite(64)),
    "sqlite-rows": ("SQLite, one client, one-row transactions", sqlite_rows),
    "sqlite-batch": ("BatchClaim of 100 on SQLite, 8 in flight", sqlite(BATCHES_IN_FLIGHT, batch=BATCH)),
    "full-v7": ("Claim, 256 in flight, on a full table, ids of version 7", full("v7")),
    "v7-256": ("Claim, 256 in flight, ids of version 7", service(256, ids="v7")),
    "purge": ("Claim, 256 in flight, during the purge", purge),
    "claim-256-3": ("Claim, 256 in flight, a third time", service(256)),
    "full-random": ("Claim, 256 in flight, on a full table, random ids", full("random")),
    "full-random-lz4": ("the same, wal_compression = lz4", full("random", wal_compression="lz4")),
    "flood": ("Claim, 200 a second, next to a large backlog", flood),
    "given-back": ("Claim, 10,000 in flight, and a minute without a call", given_back),
    "start": ("start, and memory without a call", start),
}
