"""Measures an inbox with a large backlog.

    tests/prove backlog                     a million waiting messages: about half an hour
    tests/prove backlog --messages N        N of them; the small backlog has a tenth
    tests/prove backlog --seconds N         so long for each row of the table

Workers take and complete messages of one consumer, 1, 10 and 100 a handout, by one server and by three, from a backlog that is small
and then large. Then one transaction stays open, so that Postgres keeps all dead rows, while workers go on for a minute. At the end
each statement of the inbox is shown with its calls and the pages that it touched for a message, with each backlog: none may grow with it.
Messages are erased once they are completed, as the default has it, and that is a part of the cost.
"""

import argparse
import collections
import contextlib
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "clients" / "python" / "src")]
import grpc  # noqa: E402
from idempotency_ledger._proto import admin_pb2, admin_pb2_grpc  # noqa: E402
from speed import machine, programs  # noqa: E402
from speed.cluster import Cluster  # noqa: E402

DATABASE, CONSUMER = "backlog", "backlog"
WORKER = [sys.executable, str(ROOT / "tests" / "lib" / "speed" / "inbox.py")]
HANDOUTS, SERVERS = [1, 10, 100], [1, 3]
WORKERS = 3  # processes for each server
STORING = 4  # processes
HORIZON_SECONDS, HORIZON_PARTS = 60, 3
HORIZON_RATE = 10_000  # messages a second, more than workers take: the backlog must last for that time
SETTINGS = """
shared_preload_libraries = 'pg_stat_statements'
pg_stat_statements.track = top
"""
STATEMENTS = ("SELECT substring(query from '-- ledger\\.(\\w+)'), sum(calls), sum(shared_blks_hit + shared_blks_read)"
              " FROM pg_stat_statements WHERE query ~ '-- ledger\\.inbox' GROUP BY 1 ORDER BY 1")
STORED = "SELECT count(*) FROM ledger.entries"
UNERASED = "SELECT count(*) FROM ledger.entries WHERE erase_at IS NOT NULL"
ERASED_WITHIN = 120  # seconds
WAITING = "SELECT count(*) FROM ledger.entries WHERE next_at IS NOT NULL"
# With ten times the backlog a call may touch one level of the index more, of each table that it looks at.
GROWTH_MAX, PAGES_MORE = 1.25, 4


def fill(cluster, server, wanted):
    """Stores messages by several processes, until as many wait."""
    first, count = (int(cluster.ask(DATABASE, statement)) for statement in (STORED, WAITING))
    count = max(wanted - count, 0)
    share = max(-(-count // STORING), 1)
    made = [subprocess.Popen([*WORKER, "store", server.address, CONSUMER, str(first + at), str(min(share, count - at))])
            for at in range(0, count, share)]
    while any(process.poll() is None for process in made):
        time.sleep(1)
    if any(process.returncode for process in made):
        raise SystemExit("tests/prove backlog: the messages could not be stored; the reason stands above")


def work(cluster, servers, maximum, seconds):
    """The number of messages, how many a second, and the microseconds of Postgres' and of the servers' CPU a message."""
    before = [machine.cpu_seconds(pid) for pid in (cluster.pid, *(server.pid for server in servers))]
    workers = [subprocess.Popen([*WORKER, "work", server.address, CONSUMER, str(maximum), str(seconds)], stdout=subprocess.PIPE, text=True)
               for server in servers for _ in range(WORKERS)]
    count = sum(int(worker.communicate()[0] or 0) for worker in workers)
    if any(worker.returncode for worker in workers):
        raise SystemExit("tests/prove backlog: a worker failed; the reason stands above")
    spent = [machine.cpu_seconds(pid) - earlier
             for pid, earlier in zip((cluster.pid, *(server.pid for server in servers)), before, strict=True)]
    shared = max(count, 1)
    return count, count / seconds, spent[0] * 1e6 / shared, sum(spent[1:]) * 1e6 / shared


def statements(cluster):
    """Of each statement of the inbox: its calls, and the pages that they touched."""
    rows = (line.split("|") for line in cluster.ask(DATABASE, STATEMENTS).splitlines())
    return {name: (int(calls), int(pages)) for name, calls, pages in rows}


@contextlib.contextmanager
def horizon(cluster):
    """One transaction that sees the database as it is now, so that no dead row is removed."""
    command = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM ledger.consumers; SELECT pg_sleep(3600)"
    holder = subprocess.Popen([cluster.programs / "psql", "-XAtq", *cluster.address(), "-d", DATABASE, "-c", command],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while cluster.ask(DATABASE, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)' AND state = 'active'"
                                    " AND pid <> pg_backend_pid()") != "1":
            if holder.poll() is not None:
                raise SystemExit("tests/prove backlog: the transaction that should stay open has ended")
            time.sleep(0.1)
        yield
    finally:
        cluster.ask("postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)'"
                                " AND pid <> pg_backend_pid()")
        holder.kill()
        holder.wait()


def switch_on(server):
    with grpc.insecure_channel(server.address) as channel:
        admin = admin_pb2_grpc.AdminServiceStub(channel)
        request = admin_pb2.SetPolicyRequest(consumer=CONSUMER, request_id="on", reason="a large backlog")
        request.policy.inbox = True
        admin.SetPolicy(request, timeout=30)


def row(cluster, name, found):
    _, rate, postgres, server = found
    waiting = cluster.ask(DATABASE, WAITING)
    print(f"{name:<34} {rate:>12,.0f} {postgres:>14,.0f} {server:>14,.0f} {waiting:>12}", flush=True)


def erased(cluster):
    """Waits until the completed messages are erased: so that a row counts only the statements of its messages."""
    until = time.monotonic() + ERASED_WITHIN
    while cluster.ask(DATABASE, UNERASED) != "0":
        if time.monotonic() > until:
            raise SystemExit(f"tests/prove backlog: completed messages are not erased {ERASED_WITHIN} s after their workers have ended")
        time.sleep(0.5)


def stage(cluster, servers, label, size, seconds):
    """Works on the backlog in all ways; returns the number of messages, and what the statements cost."""
    fill(cluster, servers[0], size)
    cluster.ask(DATABASE, "VACUUM ANALYZE")
    messages, costs = 0, collections.Counter()
    for number in SERVERS:
        for maximum in HANDOUTS:
            fill(cluster, servers[0], size)
            cluster.ask(DATABASE, "SELECT pg_stat_statements_reset()")
            plural = "s" if number > 1 else ""
            found = work(cluster, servers[:number], maximum, seconds)
            row(cluster, f"{label}, {number} server{plural}, {maximum} a handout", found)
            erased(cluster)
            messages += found[0]
            for name, (calls, pages) in statements(cluster).items():
                costs[name, "calls"] += calls
                costs[name, "pages"] += pages
    return messages, costs


def grown(small, large):
    """The statements that touch more pages for a message of the large backlog."""
    found = []
    head = f"{'calls':>9} {'pages a call':>13} {'pages a message':>16}"
    print(f"\n{'statement':<18} {head}   {head}")
    for name in sorted({name for _, costs in (small, large) for name, _ in costs}):
        cells, each = [], []
        for messages, costs in (small, large):
            calls, pages = costs[name, "calls"], costs[name, "pages"]
            each.append(pages / max(messages, 1))
            cells.append(f"{calls:>9} {pages / max(calls, 1):>13.1f} {each[-1]:>16.2f}")
        print(f"{name:<18} {'   '.join(cells)}")
        if each[1] > each[0] * GROWTH_MAX + PAGES_MORE:
            found.append(f"{name}: {each[0]:.1f} pages a message of the small backlog, {each[1]:.1f} of the large one")
    return found


def held(cluster, servers, size):
    """Works while one transaction holds the horizon; returns the pages of inbox_take a message in each part."""
    pages, seconds = [], max(min(HORIZON_SECONDS, size // HORIZON_RATE) // HORIZON_PARTS, 1)
    with horizon(cluster):
        for part in range(HORIZON_PARTS):
            cluster.ask(DATABASE, "SELECT pg_stat_statements_reset()")
            found = work(cluster, servers[:1], HANDOUTS[-1], seconds)
            row(cluster, f"horizon held, {part * seconds} s on, 100 a handout", found)
            pages.append(statements(cluster)["inbox_take"][1] / max(found[0], 1))
    return pages


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--profile", choices=["release", "quick", "dev"], default="release")
    given = parser.parse_args()
    if given.messages < 10_000 or not 1 <= given.seconds <= 600:
        parser.error("--messages is 10000 at least, --seconds 1 to 600")
    ledger, _ = programs.build(ROOT, given.profile)
    cluster = Cluster(given.messages, SETTINGS)
    problems = []
    try:
        print("\n".join(machine.described(ROOT)))
        url = cluster.url(cluster.fresh(DATABASE))
        programs.migrate(ledger, url)
        cluster.ask(DATABASE, "CREATE EXTENSION pg_stat_statements")
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(programs.ledger(ledger, url)) for _ in range(max(SERVERS))]
            switch_on(servers[0])
            print(f"Postgres {cluster.version}, {cluster.buffers_mib} MiB of shared buffers; {WORKERS} workers a server\n")
            print(f"{'':<34} {'messages / s':>12} {'Postgres us':>14} {'servers us':>14} {'then waiting':>12}")
            small = stage(cluster, servers, "small", given.messages // 10, given.seconds)
            large = stage(cluster, servers, "large", given.messages, given.seconds)
            fill(cluster, servers[0], given.messages)
            before, *_, after = held(cluster, servers, given.messages)
            problems += grown(small, large)
            print(f"\ninbox_take, pages a message while the horizon is held: {before:.1f} in the first third, {after:.1f} in the last")
            if after > before * GROWTH_MAX + PAGES_MORE:
                problems.append(f"inbox_take: {before:.1f} pages a message, and {after:.1f} behind the dead rows")
    finally:
        cluster.stop()
    for problem in problems:
        print(f"GROWS: {problem}")
    print(f"SUMMARY backlog: {given.messages} messages, {len(problems)} statements grow with the backlog")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
