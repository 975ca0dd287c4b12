"""Every panel of the dashboard shows the known value of a known load: promtool evaluates each query over series of two servers.

Each query is then changed by each of MISTAKES that fits it (a sum for a maximum, another part of a quantile, a label that is not
grouped by), and its load must notice. So a query without a load fails, and so does a load that shows nothing. While a consumer
without series is chosen, a query that selects by `$consumer` must show nothing.
"""

import json
import pathlib
import re
import subprocess
import tempfile

import yaml

import board
from alerts import of

OURS = "idempotency_ledger_"
# The window of a rate, and when the queries are asked, both in minutes.
WINDOW, AT = 4, 90
# A consumer without series.
ABSENT = "absent"
C = 'consumer="c"'
T = C + ',event_type="paid"'


def two(metric, labels, first, second=None, pattern="{}x200"):
    """A series of each of two servers; the second has the double."""
    second = 2 * first if second is None else second
    servers = {"a": first, "b": second}
    return {of(metric, ",".join(filter(None, [labels, f'instance="{name}"']))): pattern.format(value, value)
            for name, value in servers.items()}


def gauge(name, labels="", first=1, second=None):
    return two(OURS + name, labels, first, second)


def counter(name, labels="", a_second=1, metric=None):
    """A counter that grows by so much in each second at the first server, and by the double at the second: 3 in all."""
    return two(metric or OURS + name, labels, 60 * a_second, pattern="0+{}x200")


def buckets(name, labels="", metric=None):
    """100 a minute below 0.1 at one server, 300 a minute up to 0.5 at the other."""
    found = {}
    for server, counts in {"a": {"0.1": 100, "0.5": 100, "+Inf": 100}, "b": {"0.1": 0, "0.5": 300, "+Inf": 300}}.items():
        for bound, count in counts.items():
            more = ",".join(filter(None, [labels, f'le="{bound}",instance="{server}"']))
            found[of((metric or OURS + name) + "_bucket", more)] = f"0+{count}x200"
    return found


# 99 % of the 400 a minute: 296 of the 300 that lie between the two bounds.
QUANTILE = 0.1 + 0.4 * 296 / 300


def mean(name, labels=""):
    """The sum grows six times as quickly as the count at one server, and twice as quickly at the other."""
    return (two(OURS + name + "_sum", labels, 360, 240, "0+{}x200") | two(OURS + name + "_count", labels, 60, 120, "0+{}x200"))


SERVICE = 'grpc_service="idempotency.ledger.v1.LedgerService"'
FOREIGN = 'grpc_service="grpc.health.v1.Health"'
HANDLED, STARTED, TOOK = "grpc_server_handled_total", "grpc_server_started_total", "grpc_server_handling_seconds"
CLAIMS = "claims_total"
FIRST = {"instance": "a"}
SECOND = {"instance": "b"}

# By the title of a panel, for each of its queries: the series, and what is shown, by the labels of a line.
KNOWN = {
    "Servers that serve": [(gauge("store_ready", first=1, second=1), [({}, 2)])],
    "Servers without a store": [(gauge("store_ready", first=1, second=0) | {of(OURS + "store_ready", 'instance="c"'): "0x200"}, [({}, 2)])],
    "Claims a second": [(counter(CLAIMS, T + ',verdict="acquired"') | counter(CLAIMS, T + ',verdict="completed"'), [({}, 6)])],
    "Claims that the ledger could not answer": [
        (counter(CLAIMS, T + ',verdict="acquired"', 6) | counter(CLAIMS, T + ',verdict="unavailable"')
         | counter(CLAIMS, T + ',verdict="unanswered"'), [({}, 0.25)])],
    "99 % of Claims take less than": [
        (buckets("", SERVICE + ',grpc_method="Claim"', TOOK)
         | two(TOOK + "_bucket", SERVICE + ',grpc_method="Renew",le="0.1"', 6_000, pattern="0+{}x200")
         | two(TOOK + "_bucket", FOREIGN + ',grpc_method="Claim",le="0.1"', 6_000, pattern="0+{}x200"), [({}, QUANTILE)])],
    # Both servers count the same entries.
    "Messages that wait for a person": [
        (gauge("entries", C + ',state="parked"', 5, 6) | gauge("entries", 'consumer="d",state="parked"', 7, 3)
         | gauge("entries", C + ',state="received"', 50), [({}, 13)])],
    "Oldest message that waits for another attempt": [
        (gauge("entries_oldest_seconds", C + ',kind="claimable"', 50, 60) | gauge("entries_oldest_seconds", C + ',kind="parked"', 70), [({}, 60)])],
    # Ten in a minute at one server and twenty at the other, of each of the two; within an hour.
    "Contradictions, losses and doubled effects in an hour": [
        (two(OURS + "alerts_total", 'reason="CLAIM_CLOSED"', 10, pattern="0+{}x200")
         | two(OURS + "doubled_effects_total", C, 10, 30, pattern="0+{}x200"), [({}, 60 * 30 + 60 * 40)])],
    "Claims by verdict": [
        (counter(CLAIMS, T + ',verdict="acquired"') | counter(CLAIMS, 'consumer="d",event_type="",verdict="acquired"'),
         [({"verdict": "acquired"}, 6)])],
    "Duplicates": [
        (counter(CLAIMS, T + ',verdict="completed"') | counter(CLAIMS, T + ',verdict="acquired"', 3), [({"consumer": "c"}, 0.25)])],
    "Claims by event type": [
        (counter(CLAIMS, T + ',verdict="completed"') | counter(CLAIMS, T + ',verdict="acquired"', 3),
         [({"consumer": "c", "event_type": "paid"}, 12)])],
    "Failed attempts": [
        (counter("attempts_failed_total", T + ',kind="park"'), [({"consumer": "c", "event_type": "paid", "kind": "park"}, 3)])],
    "Claims in place of expired ones": [(counter("reclaims_total", C), [({"consumer": "c"}, 3)])],
    "Doubled effects": [(counter("doubled_effects_total", C), [({"consumer": "c"}, 3 * 60 * WINDOW)])],
    "Messages parked": [(counter("parked_total", C + ',cause="consumer"'), [({"consumer": "c", "cause": "consumer"}, 3)])],
    "Claims in replay runs": [
        (counter("replay_claims_total", T + ',replay="true",verdict="acquired"'),
         [({"consumer": "c", "event_type": "paid", "verdict": "acquired"}, 3)])],
    "Settlements": [
        (counter("settlements_total", C + ',operation="fail",outcome="ok"') | counter("settlements_total", 'consumer="d",operation="fail",outcome="ok"'),
         [({"operation": "fail", "outcome": "ok"}, 6)])],
    "99 % of claims are held for less than": [
        (buckets("claim_held_seconds", T + ',operation="complete"') | buckets("claim_held_seconds", 'consumer="d",event_type="",operation="fail"'),
         [({"consumer": "c", "event_type": "paid"}, QUANTILE)])],
    "Attempts that a completion takes": [(mean("completion_attempts", C), [({"consumer": "c"}, 600 / 180)])],
    "Releases in a row": [(mean("releases_in_a_row", C), [({"consumer": "c"}, 600 / 180)])],
    "Entries": [
        (gauge("entries", C + ',state="parked"', 5, 6) | gauge("entries", C + ',state="completed"', 9),
         [({"consumer": "c", "state": "parked"}, 6)])],
    "Age of the oldest": [(gauge("entries_oldest_seconds", C + ',kind="expired"', 5, 6), [({"consumer": "c", "kind": "expired"}, 6)])],
    "Expired claims": [(gauge("entries_expired", C, 5, 6), [({"consumer": "c"}, 6)])],
    "At most one attempt left": [(gauge("entries_near_exhaustion", C, 5, 6), [({"consumer": "c"}, 6)])],
    "Time to count the entries": [(buckets("entries_counting_seconds"), [({}, QUANTILE)])],
    "99 % of statements take less than": [(buckets("store_statement_seconds", 'statement="insert"'), [({"statement": "insert"}, QUANTILE)])],
    "Failures": [
        (counter("store_failures_total", 'statement="insert",kind="locked"'), [({"statement": "insert", "kind": "locked"}, 3)])],
    "Commands in a batch": [(mean("batch_commands"), [({}, 600 / 180)])],
    "Commands that wait": [(gauge("queue_commands", 'lane="claim"', 5, 6), [({"lane": "claim"}, 11)])],
    "99 % of commands wait less than": [(buckets("queue_wait_seconds", 'lane="claim"'), [({"lane": "claim"}, QUANTILE)])],
    "Calls that wait": [(gauge("waiters", first=5, second=6), [({}, 11)])],
    "Waits that ended": [(counter("wait_seconds_count", 'outcome="granted"'), [({"outcome": "granted"}, 3)])],
    "Sessions": [
        (gauge("store_sessions", first=2, second=3), [({}, 5)]),
        (gauge("store_sessions_wanted", first=2, second=3), [({}, 5)]),
        (gauge("store_backends_left_behind", first=2, second=3), [({}, 5)])],
    "Sessions opened, and replaced when their time was over": [
        (counter("store_sessions_opened_total", 'purpose="purge",outcome="ok"'), [({"purpose": "purge", "outcome": "ok"}, 3)]),
        (counter("store_sessions_replaced_total", 'purpose="purge",outcome="ok"'), [({"purpose": "purge", "outcome": "ok"}, 3)])],
    "Clock and policies": [
        (gauge("store_clock_behind_seconds", first=5, second=6), [({}, 6)]),
        (gauge("policies_age_seconds", first=5, second=6), [({}, 6)])],
    "Stored policies that cannot be read": [
        (gauge("policies_unreadable", first=5, second=6) | {of(OURS + "policies_unreadable", 'instance="a",pod="other"'): "4x200"},
         [(FIRST, 5), (SECOND, 6)])],
    "Holds in force": [(gauge("holds_in_force", first=5, second=6), [({}, 6)])],
    "Calls": [
        (counter("", SERVICE + ',grpc_method="Claim"', metric=STARTED) | counter("", FOREIGN + ',grpc_method="Check"', metric=STARTED),
         [({"grpc_method": "Claim"}, 3)])],
    "Calls that failed": [
        (counter("", SERVICE + ',grpc_method="Claim",grpc_code="Aborted"', metric=HANDLED)
         | counter("", SERVICE + ',grpc_method="Claim",grpc_code="OK"', metric=HANDLED)
         | counter("", FOREIGN + ',grpc_method="Check",grpc_code="NotFound"', metric=HANDLED),
         [({"grpc_method": "Claim", "grpc_code": "Aborted"}, 3)])],
    "99 % of calls take less than": [
        (buckets("", SERVICE + ',grpc_method="Renew"', TOOK) | buckets("", FOREIGN + ',grpc_method="Check"', TOOK),
         [({"grpc_method": "Renew"}, QUANTILE)])],
    "Refusals": [(counter("refusals_total", 'reason="OVERLOADED"'), [({"reason": "OVERLOADED"}, 3)])],
    "Callers that were refused": [
        (counter("refusals_total", 'reason="OVERLOADED"') | counter("refusals_total", 'reason="UNAUTHENTICATED"')
         | counter("refusals_total", 'reason="CONSUMER_NOT_ALLOWED"', 2),
         [({"reason": "UNAUTHENTICATED"}, 3), ({"reason": "CONSUMER_NOT_ALLOWED"}, 6)])],
    # A day and two days after the instant at which they are looked at. One server has a second address.
    "Days until the certificate ends": [
        (two(OURS + "tls_certificate_expiry_timestamp_seconds", "", AT * 60 + 86_400, AT * 60 + 2 * 86_400)
         | {of(OURS + "tls_certificate_expiry_timestamp_seconds", 'instance="a",pod="other"'): f"{AT * 60 + 3 * 86_400}x200"},
         [(FIRST, 1), (SECOND, 2)])],
    "Files of TLS, tokens and rights that fail": [
        (gauge("credential_files_failing", 'setting="tokens_file"', 1, 0)
         | {of(OURS + "credential_files_failing", 'setting="tokens_file",instance="a",pod="other"'): "1x200"},
         [(FIRST | {"setting": "tokens_file"}, 2), (SECOND | {"setting": "tokens_file"}, 0)])],
    "Connections, and calls under way": [
        (gauge("connections", first=5, second=6), [({}, 11)]),
        (two(STARTED, SERVICE + ',grpc_method="Claim"', 50, 60) | two(HANDLED, SERVICE + ',grpc_method="Claim",grpc_code="OK"', 40, 45)
         | two(STARTED, FOREIGN + ',grpc_method="Watch"', 9), [({}, 25)])],
    "Stored messages": [
        (gauge("inbox_messages", C + ',kind="due"', first=5, second=6), [({"consumer": "c", "kind": "due"}, 6)])],
    "The oldest due message waits for": [(gauge("inbox_oldest_due_seconds", C, first=5, second=6), [({"consumer": "c"}, 6)])],
    "Stores": [(counter("inbox_stores_total", 'outcome="stored"'), [({"outcome": "stored"}, 3)])],
    "Messages stored, by event type": [(counter("inbox_stored_total", C + ',event_type="paid"'),
                                        [({"consumer": "c", "event_type": "paid"}, 3)])],
    "Looks of ClaimNext, and messages handed out": [
        (counter("inbox_handouts_total", 'outcome="nothing"'), [({"outcome": "nothing"}, 3)]),
        (counter("inbox_handed_out_messages_total"), [({}, 3)])],
    "Bytes of messages": [(gauge("inbox_message_bytes", first=5, second=6), [({}, 6)])],
    "Messages that are due to be erased wait for": [(gauge("inbox_erase_lag_seconds", first=5, second=6), [({}, 6)])],
    "Bytes in memory": [
        (gauge("request_bytes", first=5, second=6), [({}, 11)]),
        (gauge("answer_bytes", first=5, second=6), [({}, 11)]),
        (gauge("queue_bytes", first=5, second=6), [({}, 11)])],
    "Calls ended": [
        (counter("streams_ended_total", 'why="share"'), [({"why": "share"}, 3)]),
        (counter("server_full_total", 'resource="answer_bytes"'), [({"resource": "answer_bytes"}, 3)])],
    "Entries purged": [
        (counter("purged_total"), [({}, 3)]),
        (counter("purge_failures_total"), [({}, 3)])],
    "The oldest due entry waits for": [(gauge("purge_oldest_due_seconds", first=5, second=6), [({}, 6)])],
    # Another program of the same job has no version.
    "CPU": [
        (counter("", metric="process_cpu_seconds_total") | {of(OURS + "build_info", 'instance="a"'): "1x200"}, [(FIRST, 1)])],
    "Memory": [
        (two("process_resident_memory_bytes", "", 5) | {of(OURS + "build_info", 'instance="a"'): "1x200"},
         [(FIRST, 5)])],
}

# What may be written in a query instead of what: of each that fits, the load of the query must notice it.
MISTAKES = [
    (r"\bsum\b", "max"), (r"\bmax\b", "sum"), (r"\bmin\b", "max"), (r"\b0\.99\b", "0.5"), (r"\brate\(", "increase("),
    (r"\bincrease\(", "rate("), (r" / ", " * "), (r" - ", " + "), (r"=~", "!~"), (r"!=", "="), (r"\b86400\b", "3600"),
    (r"(?<=[a-z])=\"", "!=\""), (r"by \((?:[^),]+, )*\K[^),]+(?=\))", "nothing"), (r"_total\b", "_totals"),
    (r"idempotency_ledger_(?!build)", "idempotency_ledger_no_"), (r" and on \(instance\) idempotency_ledger_build_info", ""),
    (r" \+ sum", " - sum"), (r"\|", "_"), (r"\[1h\]", "[30m]"),
]
# Replacements of the matcher of `$consumer`, everywhere in a query: the query then shows something while ABSENT is chosen.
CHOICE_MISTAKES = [f'consumer=~"{board.ALL}"', 'consumer!~"$consumer"', f'consumer=~"$consumer|{board.ALL}"']


def chosen(query, consumer=board.ALL):
    """The query as Grafana sends it while this consumer is chosen. By default all consumers are."""
    return query.replace("$__rate_interval", f"{WINDOW}m").replace("$consumer", consumer)


def shown():
    """The labels of the series that each query shows, by the title of its panel and its number."""
    return {(title, number): set().union(*(labels for labels, _ in lines))
            for title, loads in KNOWN.items() for number, (_, lines) in enumerate(loads)}


def mistaken(query):
    """The query with each of the mistakes that fit it, at each of their places."""
    for pattern, instead in MISTAKES:
        # A part of a histogram is the same of a rate and of an increase.
        if instead == "increase(" and query.startswith("histogram_quantile"):
            continue
        # Python has no \K: the label that is grouped by last is found by what stands before it.
        if r"\K" in pattern:
            for group in re.finditer(r"by \(([^)]+)\)", query):
                labels = [label for label in group[1].split(", ") if label != "le"]
                fewer = ", ".join(label for label in group[1].split(", ") if label != labels[-1]) if labels else group[1]
                if fewer != group[1]:
                    yield query[: group.start(1)] + fewer + query[group.end(1):]
            continue
        for found in re.finditer(pattern, query):
            yield query[: found.start()] + instead + query[found.end():]


def rounded(query):
    """Rates of whole numbers are not whole in a computer."""
    return f"round({query}, 0.000001)"


def unit_test(query, load, lines):
    """One of promtool's tests: what a query shows over these series."""
    def labels(of_line):
        pairs = ",".join(f'{label}="{value}"' for label, value in of_line.items())
        return f"{{{pairs}}}"

    samples = [{"labels": labels(of_line), "value": round(value, 6)} for of_line, value in lines]
    inputs = [{"series": series, "values": values} for series, values in load.items()]
    test = {"expr": rounded(query), "eval_time": f"{AT}m", "exp_samples": samples}
    return {"interval": "1m", "input_series": inputs, "promql_expr_test": [test]}


def promtool(tests):
    with tempfile.TemporaryDirectory(prefix="ledger-panels-") as folder:
        file = pathlib.Path(folder) / "tests.yaml"
        file.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": tests}))
        done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def check():
    """The problems, and how many queries and mistakes there are."""
    problems, tests, wrong = [], [], []
    asked = list(board.lines())
    for title, number, raw in ((line.title, line.number, line.query) for line in asked):
        loads, query = KNOWN.get(title, []), chosen(raw)
        if number >= len(loads):
            problems.append(f"the panel {title!r} has no known load for its query {number}: {query}")
            continue
        load, lines = loads[number]
        tests.append(unit_test(query, load, lines))
        wrong += [(title, changed, load, lines) for changed in mistaken(query)]
        if "$consumer" in raw:
            tests.append(unit_test(chosen(raw, ABSENT), load, []))
            wrong += [(title, chosen(raw.replace(board.CHOICE, instead), ABSENT), load, []) for instead in CHOICE_MISTAKES]
    for title, loads in KNOWN.items():
        there = sum(line.title == title for line in asked)
        if there != len(loads):
            problems.append(f"the panel {title!r} has {there} queries, and {len(loads)} known loads")
    code, text = promtool(tests)
    if code:
        problems.append(f"a panel does not show the known value of its load: {text}")
    _, text = promtool([unit_test(changed, load, lines) for _, changed, load, lines in wrong])
    if "parse error" in text:
        problems.append(f"a mistake cannot be parsed, so that no load has to notice it: {text}")
    for title, changed, _, _ in wrong:
        # A test that fails is printed with its query, in quotes.
        if json.dumps(rounded(changed)) not in text:
            problems.append(f"the panel {title!r} would show the same by {changed}")
    return problems, len(asked), len(wrong)

