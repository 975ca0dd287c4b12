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
# What a server does by the clock, whatever is claimed. A statement that is not listed here is one of the items'.
UPKEEP = """audit_purge beat consumers created created_first doubled effective_retentions policies policy_epoch prove purge_again
    purge_end purge_take purges_report replay_runs sampled schema size summary trust unmark unmarked""".split()
NAME = re.compile(r"-- ledger\.(\w+)")
SESSION = re.compile(r"SET |SELECT set_config|SELECT pg_stat_|CREATE EXTENSION")
MINE = "SELECT oid FROM pg_database WHERE datname = current_database()"
READ = ("SELECT calls, shared_blks_hit + shared_blks_read, wal_records, wal_bytes, regexp_replace(query, '\\s+', ' ', 'g')"
        f" FROM pg_stat_statements WHERE dbid = ({MINE})")
ENTRIES = "SELECT count(*) FROM ledger.entries"
# The owners of `bench` have the name of the machine in them.
OWNER = f"SELECT avg(octet_length(owner)) - {len(client.OWNER)} FROM ledger.entries"
SIZE = "SELECT pg_total_relation_size('ledger.entries')"


def is_of_an_item(query):
    name = NAME.match(query)
    return name[1] not in UPKEEP if name else not SESSION.match(query)


def named(query):
    name = NAME.match(query)
    return name[1] if name else query


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
        told = {}
        with programs.ledger(self.binary, url) as server, client.Client(server.address) as calls:
            warm_up(calls)
            self.cluster.ask(name, "SELECT pg_stat_statements_reset()")
            self.cluster.ask(name, "SELECT pg_stat_reset_shared('wal')")
            yield calls, told
            rows = [line.split("|", 4) for line in self.cluster.ask(name, READ).splitlines()]
        found = [([int(number) for number in numbers], query) for *numbers, query in rows if is_of_an_item(query)]
        for place, what in enumerate(("statements", "pages", "records", "bytes")):
            told[what] = sum(numbers[place] for numbers, _ in found) / told["items"]
        told["by"] = ", ".join(sorted(f"{named(query)} {numbers[0]}" for numbers, query in found))
        told["bytes"] -= float(self.cluster.ask(name, OWNER)) if told["bytes"] else 0
        told["disk"] = int(self.cluster.ask(name, SIZE)) / int(self.cluster.ask(name, ENTRIES))
        told["logged"] = [number / told["items"] for number in self.until_reported(name)]

    def until_reported(self, name):
        """Records and bytes of all that was logged, once the sessions have ended: they report then."""
        last, told = None, ""
        for _ in range(100):
            others = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
            last, told = told, self.cluster.ask(name, f"SELECT ({others}), wal_records, wal_bytes FROM pg_stat_wal")
            if told.startswith("0|") and last == told:
                break
            time.sleep(0.05)
        return [int(word) for word in told.split("|")[1:]]

    def bench(self, address):
        """Claims with 256 in flight until there are enough rows; how many items that were. `bench` takes little of the machine:
        with a client that is slower than the server, fewer calls would wait for a statement."""
        items = 0
        while items < ROWS:
            shown = programs.bench(self.binary, address, 2, "--workload", "claim", "--in-flight", "256", "--connections", "4")
            items += shown["created"]
        return items

    def claims_in_flight(self):
        with self.served() as (calls, told):
            told["items"] = self.bench(calls.address)
        return told

    def claims_in_batches(self):
        with self.served() as (calls, told):
            calls.batch_claim(range(ROWS))
            told["items"] = ROWS
        return told

    def pairs_in_batches(self):
        # No row stays open: the bytes on disk are those of completed rows.
        with self.served(warm_up=lambda calls: calls.batch_pairs(WARM)) as (calls, told):
            calls.batch_pairs(range(ROWS))
            told["items"] = ROWS
        return told

    def single_claims(self):
        with self.served(lambda calls: calls.batch_claim(range(SINGLE, ROWS))) as (calls, told):
            for number in range(SINGLE):
                calls.claim(number)
            told["items"] = SINGLE
        return told

    def repeats(self):
        def twice(calls):
            # A server looks before it inserts once it has met repeated claims.
            calls.claim_concurrently(range(REPEATED))
        with self.served(lambda calls: calls.batch_pairs(range(REPEATED)), twice) as (calls, told):
            completed = calls.claim_concurrently(range(REPEATED))
            if completed != REPEATED:
                raise RuntimeError(f"of {REPEATED} completed messages {completed} were answered as completed")
            told["items"] = REPEATED
        return told

    def stop(self):
        self.cluster.stop()
