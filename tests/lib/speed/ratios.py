"""P1 to P19 and what belongs to them: how each is made of the runs of one round, what it must reach, and its aim."""

import dataclasses
import statistics
from typing import Callable


@dataclasses.dataclass(frozen=True)
class Ratio:
    number: str
    what: str
    needs: tuple
    of: Callable
    must: float
    aim: float
    # Where less is better.
    at_most: bool = False
    unit: str = ""

    def holds(self, value, bound):
        return value <= bound if self.at_most else value >= bound


def _rates(one, other):
    return (one, other), lambda run: run[one]["rate"] / run[other]["rate"]


def _cpu(one, other):
    return (one, other), lambda run: run[one]["postgres_us"] / run[other]["postgres_us"]


def _server(one, other):
    return (one, other), lambda run: run[one]["server_us"] / run[other]["server_us"]


def _more(name):
    return lambda run: run[name]["server_us"] - run["claim-256-2"]["server_us"]


def _wal(one, other):
    return (one, other), lambda run: run[one]["wal"] / run[other]["wal"]


def _ratio(number, what, made, must, aim, **more):
    needs, of = made
    return Ratio(number, what, needs, of, must, aim, **more)


RATIOS = [
    _ratio("P1", "unary Claim, 64 in flight ÷ pgbench-64", _rates("claim-64", "pgbench-64"), 1.6, 1.9),
    _ratio("P2", "unary Claim, 256 ÷ pgbench-64", _rates("claim-256", "pgbench-64"), 2.2, 2.7),
    _ratio("P3", "unary, 256 ÷ the same server uncoalesced", _rates("claim-256", "uncoalesced"), 3, 4),
    _ratio("P4", "Postgres CPU, pgbench-64 ÷ service at 256", _cpu("pgbench-64", "claim-256"), 9, 12),
    _ratio("P4", "the same in batches", _cpu("pgbench-64", "batch-claim"), 11, 13),
    Ratio("CPU", "Postgres CPU, Claim at 256 ÷ a row of pgbench's 100", *_cpu("claim-256", "pgbench-rows"), 2.2, 1.2, at_most=True),
    Ratio("CPU", "the same of BatchClaim", *_cpu("batch-claim", "pgbench-rows"), 1.4, 1.0, at_most=True),
    Ratio("pages", "pages that a claim touches, in batches", ("batch-claim",), lambda run: run["batch-claim"]["pages"], 6.6, 6, at_most=True),
    Ratio("pages", "pages that a pair touches, in batches", ("batch-pair",), lambda run: run["batch-pair"]["pages"], 12, 11, at_most=True),
    _ratio("P5", "BatchClaim 100 × 8 ÷ pgbench-64", _rates("batch-claim", "pgbench-64"), 7, 9),
    _ratio("P6", "pairs at 256 ÷ pgbench pairs", _rates("pair-256", "pgbench-pairs"), 2.6, 3.2),
    _ratio("P6", "batch pairs ÷ pgbench pairs", _rates("batch-pair", "pgbench-pairs"), 9, 12),
    Ratio("P7", "p50 at 1 in flight ÷ (pgbench-1 mean + echo-1 p50)", ("claim-1", "pgbench-1", "echo-1"),
          lambda run: run["claim-1"]["p50"] / (run["pgbench-1"]["mean"] + run["echo-1"]["p50"]), 1.15, 1.08, at_most=True),
    _ratio("P8", "claims on a full table of random ids ÷ empty", _rates("full-random", "claim-256-3"), 0.75, 0.85),
    _ratio("P8", "the same, wal_compression = lz4", _rates("full-random-lz4", "claim-256-3"), 0.75, 0.85),
    _ratio("P8", "claims on a full table of UUIDv7 ÷ empty", _rates("full-v7", "v7-256"), 0.9, 0.97),
    Ratio("P9", "purge rate ÷ claim rate, both flat out", ("purge",), lambda run: run["purge"]["purged"] / run["purge"]["rate"], 1.0, 1.2),
    _ratio("P9", "claims then ÷ alone", _rates("purge", "claim-256-3"), 0.7, 0.85),
    _ratio("P10", "SQLite, 64 in flight ÷ one-row transactions", _rates("sqlite-64", "sqlite-rows"), 4, 6),
    _ratio("P10", "SQLite, BatchClaim ÷ one-row transactions", _rates("sqlite-batch", "sqlite-rows"), 5, 7),
    Ratio("P11", "p99 at 64 in flight ÷ pgbench-64's mean", ("claim-64", "pgbench-64"),
          lambda run: run["claim-64"]["p99"] / run["pgbench-64"]["mean"], 1.6, 1.3, at_most=True),
    _ratio("P12", "90 % duplicates, 256 ÷ new claims", _rates("duplicates", "claim-256-2"), 1.0, 1.3),
    _ratio("P13", "WAL of a claim ÷ pgbench's", _wal("claim-256", "pgbench-64"), 0.95, 0.80, at_most=True),
    _ratio("P13", "WAL of a pair ÷ pgbench's", _wal("pair-256", "pgbench-pairs"), 0.90, 0.75, at_most=True),
    Ratio("P14", "bytes on disk a completed row", ("batch-pair",), lambda run: run["batch-pair"]["disk"], 430, 380, at_most=True, unit="B"),
    Ratio("P15", "server CPU: a unary call − echo's", ("claim-256", "echo-256"),
          lambda run: run["claim-256"]["server_us"] - run["echo-256"]["server_us"], 11, 8, at_most=True, unit="us"),
    Ratio("P15", "server CPU: a batch item", ("batch-claim",), lambda run: run["batch-claim"]["server_us"], 4.5, 3.5, at_most=True, unit="us"),
    _ratio("P16", "1,024 ÷ 256 in flight", _rates("claim-1024", "claim-256"), 0.9, 1.0),
    Ratio("P16", "at 10,000: server CPU a good answer ÷ at 256", ("claim-10000", "claim-256"),
          lambda run: run["claim-10000"]["server_us"] / run["claim-256"]["server_us"], 1.3, 1.15, at_most=True),
    Ratio("P16", "at 10,000: p99 of a refusal", ("claim-10000",), lambda run: _refusals(run["claim-10000"]), 50, 5, at_most=True, unit="ms"),
    Ratio("P16", "at 10,000, Postgres is slow: p99 of a refusal", ("overload",), lambda run: run["overload"]["p99_refused"] / 1e3, 50, 5,
          at_most=True, unit="ms"),
    _ratio("P17", "256 connections ÷ 4, 256 in flight", _rates("connections", "claim-256-2"), 0.8, 0.9),
    _ratio("P18", "one hot key ÷ 100 hot keys, 64 in flight", _rates("hot-1", "hot-100"), 0.5, 0.9),
    _ratio("P19", "metrics, TLS, a token, rights ÷ everything off, 256", _rates("trusted", "unseen"), 0.85, 0.93),
    Ratio("P19", "server CPU: TLS of a call", ("tls", "claim-256-2"), _more("tls"), 4, 2, at_most=True, unit="us"),
    Ratio("P19", "server CPU: a token and rights of a call", ("token", "claim-256-2"), _more("token"), 1.5, 0.5, at_most=True, unit="us"),
    Ratio("P19", "server CPU: a web token and rights of a call", ("web-token", "claim-256-2"), _more("web-token"), 1.5, 0.5, at_most=True, unit="us"),
    _ratio("observe", "server CPU of a claim, counted ÷ not counted", _server("claim-256-2", "unseen"), 1.03, 1.02, at_most=True),
    _ratio("observe", "the same, one call of a hundred traced", _server("traced", "unseen"), 1.08, 1.03, at_most=True),
    _ratio("observe", "not counted ÷ not counted: how far two runs differ", _server("unseen-again", "unseen"), 1.05, 1.02, at_most=True),
    Ratio("flood", "p99 of a consumer next to a large backlog ÷ alone", ("flood",), lambda run: run["flood"]["p99"] / run["flood"]["calm_p99"],
          3, 2, at_most=True),
    *(_ratio("knee", f"{2 * calls:,} ÷ {calls:,} in flight", _rates(f"claim-{2 * calls}", f"claim-{calls}"), 0.9, 1.0)
      for calls in (256, 512, 1_024, 2_048, 4_096)),
    Ratio("start", "start of a server, the schema is there", ("start",), lambda run: run["start"]["start_ms"], 200, 100, at_most=True, unit="ms"),
    Ratio("RSS", "memory without a call", ("start",), lambda run: run["start"]["rss_mib"], 24, 16, at_most=True, unit="MiB"),
    Ratio("RSS", "memory with 1,024 in flight", ("claim-1024",), lambda run: run["claim-1024"]["rss_mib"], 64, 48, at_most=True, unit="MiB"),
    Ratio("RSS", "memory with 10,000 in flight", ("claim-10000",), lambda run: run["claim-10000"]["rss_mib"], 160, 128, at_most=True, unit="MiB"),
    Ratio("knee", "memory a minute after 10,000 in flight ÷ before", ("given-back",),
          lambda run: run["given-back"]["rss_mib"] / run["given-back"]["before_mib"], 1.2, 1.1, at_most=True),
]


def _refusals(run):
    if "p99_refused" not in run:
        raise RuntimeError("none was refused: there was room for all calls")
    return run["p99_refused"] / 1e3


def quartiles(values):
    """The median, and the first and third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    first, median, third = statistics.quantiles(values, n=4, method="inclusive")
    return median, first, third
