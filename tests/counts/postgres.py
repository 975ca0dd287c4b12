"""What an item costs Postgres, as Postgres itself counts it.

Statements, pages, and the records and bytes of the log are those of `pg_stat_statements`, which knows them when a statement
ends. It does not see a statement's commit: `pg_stat_wal`, which sees all that the server logs, is printed next to it.
"""

import contextlib
import re
import time

import client
from speed import programs
from speed.cluster import Cluster

# Nothing but the load works on the tables: an autovacuum would touch their pages.
SETTINGS = """
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track = top
autovacuum = off
"""
# Up to 60,000 rows both indexes have two levels. With more of them a claim touches two pages more.
ROWS, SINGLE, REPEATED = 20_000, 200, 2_000
# The numbers of consumer and source are known then, and the plans are made.
WARM = range(1_000_000, 1_000_100)
# What a server sends by the clock, whatever is claimed, each less than twice a second. All other statements are the items'.
UPKEEP_A_SECOND, UPKEEP_LEAST = 2, 5
UPKEEP = """audit_purge backlog beat consumers created created_first doubled effective_retentions holds key_format mark marked policies
    policy_epoch prove purge purge_end purge_places purge_take purges_report replay_runs sampled schema size summary trust unmark
    unmarked unmarked_open""".split()
NAME = re.compile(r"-- ledger\.(\w+)")
SESSION = re.compile(r"SET |SELECT set_config|SELECT pg_stat_|CREATE EXTENSION")
MINE = "SELECT oid FROM pg_database WHERE datname = current_database()"
READ = ("SELECT calls, shared_blks_hit + shared_blks_read, wal_records, wal_bytes, regexp_replace(query, '\\s+', ' ', 'g')"
        f" FROM pg_stat_statements WHERE dbid = ({MINE})")
ENTRIES = "SELECT count(*) FROM ledger.entries"
# The owners of `bench` have the name of the machine in them.
OWNER = f"SELECT avg(octet_length(owner)) - {len(client.OWNER)} FROM ledger.entries"
SIZE = "SELECT pg_total_relation_size('ledger.entries')"


def named(query):
    name = NAME.match(query)
    return name[1] if name else query


def is_of_an_item(query, calls, seconds):
    """Also a statement of the upkeep, where it is sent more often than by the clock."""
    if SESSION.match(query):
        return False
    return named(query) not in UPKEEP or calls > UPKEEP_LEAST + UPKEEP_A_SECOND * seconds


class Counter:
    """Databases of one cluster, each counted by itself."""

    def __init__(self, binary):
        self.binary = binary
        self.cluster = Cluster(ROWS, SETTINGS)

    @contextlib.contextmanager
    def served(self, before=lambda calls: None, warm_up=lambda calls: calls.batch_claim(WARM)):
        """A server over a new database, with a client of it, and a dictionary for what is counted of `items` within.

        `before` runs on another server, whose sessions have reported all that they logged when they have ended."""
        name = self.cluster.fresh("counted")
        url = self.cluster.url(name)
        programs.migrate(self.binary, url)
        self.cluster.ask(name, "CREATE EXTENSION pg_stat_statements")
        # Later on each page that is touched first after it would be logged as a whole.
        self.cluster.checkpoint()
        with programs.ledger(self.binary, url) as server, client.Client(server.address) as calls:
            before(calls)
        self.until_reported(name)
        counts = {}
        with programs.ledger(self.binary, url) as server, client.Client(server.address) as calls:
            warm_up(calls)
            self.cluster.ask(name, "SELECT pg_stat_statements_reset()")
            self.cluster.ask(name, "SELECT pg_stat_reset_shared('wal')")
            began = time.monotonic()
            yield calls, counts
            seconds = time.monotonic() - began
            rows = [line.split("|", 4) for line in self.cluster.ask(name, READ).splitlines()]
        found = [([int(number) for number in numbers], query) for *numbers, query in rows]
        found = [(numbers, query) for numbers, query in found if is_of_an_item(query, numbers[0], seconds)]
        for place, what in enumerate(("statements", "pages", "records", "bytes")):
            counts[what] = sum(numbers[place] for numbers, _ in found) / counts["items"]
        counts["by"] = ", ".join(sorted(f"{named(query)} {numbers[0]}" for numbers, query in found))
        counts["bytes"] -= float(self.cluster.ask(name, OWNER)) if counts["bytes"] else 0
        counts["disk"] = int(self.cluster.ask(name, SIZE)) / int(self.cluster.ask(name, ENTRIES))
        counts["logged"] = [number / counts["items"] for number in self.until_reported(name)]

    def until_reported(self, name):
        """Records and bytes of all that was logged, once the sessions have ended: they report then."""
        last, logged = None, ""
        for _ in range(100):
            others = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
            last, logged = logged, self.cluster.ask(name, f"SELECT ({others}), wal_records, wal_bytes FROM pg_stat_wal")
            if logged.startswith("0|") and last == logged:
                break
            time.sleep(0.05)
        return [int(word) for word in logged.split("|")[1:]]

    def bench(self, address, workload, answered):
        """Claims with 256 in flight until there are enough items; how many items that were. `bench` takes little of the machine:
        with a client that is slower than the server, fewer calls would wait for a statement."""
        items, seconds = 0, 2
        while items < ROWS:
            shown = programs.bench(self.binary, address, seconds, "--workload", workload, "--in-flight", "256", "--connections", "4")
            items += answered(shown)
            # All that is left: each run begins and ends with calls that are alone in their statements.
            seconds = min(60, max(0.5, 1.1 * (ROWS - items) / max(shown["perSecond"], 1)))
        return items

    def claims_in_flight(self):
        with self.served() as (calls, counts):
            counts["items"] = self.bench(calls.address, "claim", lambda shown: shown["created"])
        return counts

    def claims_in_batches(self):
        with self.served() as (calls, counts):
            calls.batch_claim(range(ROWS))
            counts["items"] = ROWS
        return counts

    def pairs_in_batches(self):
        # No row stays open: the bytes on disk are those of completed rows.
        with self.served(warm_up=lambda calls: calls.batch_pairs(WARM)) as (calls, counts):
            calls.batch_pairs(range(ROWS))
            counts["items"] = ROWS
        return counts

    def single_claims(self):
        def indexed(calls):
            calls.batch_claim(range(SINGLE, ROWS))
            # The pages of the indexes are full as it happens otherwise, and of 200 claims some more or fewer would split one.
            self.cluster.ask("counted", "REINDEX TABLE ledger.entries")
        with self.served(indexed) as (calls, counts):
            for number in range(SINGLE):
                calls.claim(number)
            counts["items"] = SINGLE
        return counts

    def repeats(self):
        def twice(calls):
            # A server looks before it inserts once it has met repeated claims.
            calls.claim_concurrently(range(REPEATED))
        with self.served(lambda calls: calls.batch_pairs(range(REPEATED)), twice) as (calls, counts):
            completed = calls.claim_concurrently(range(REPEATED))
            if completed != REPEATED:
                raise RuntimeError(f"of {REPEATED} completed messages {completed} were answered as completed")
            counts["items"] = REPEATED
        return counts

    def repeats_in_flight(self):
        # The 40 statements that complete the 2,000 messages of a run are counted, too.
        with self.served() as (calls, counts):
            counts["items"] = self.bench(calls.address, "duplicates=100", lambda shown: shown["calls"]["Claim"]["answered"])
        return counts

    def stop(self):
        self.cluster.stop()
