"""The edges of each alert: the minute before it fires and the minute at which it fires, and both sides of its threshold.

Each threshold and each waiting time of a rule is moved a little up and a little down, and an edge of the alert must notice. So
a rule without its edges fails, and so does an edge that is far from its threshold.
"""

import pathlib
import re
import subprocess
import tempfile

import yaml

import alerts
from alerts import A, BUILD, DAY, ROOT, SERVICE, of

# What a threshold is multiplied by; and what 0 becomes, also where it is a time in seconds.
UP, DOWN = 1.02, 0.98
AROUND_ZERO, AROUND_NOW = (1.5, -0.5), (90, -90)
# A comparison with a number, which may be a product of numbers.
THRESHOLD = re.compile(r"(?<=[<>=] )(\d[\d.e]*(?: \* \d[\d.e]*)*)(?=\s|\)|$)")
# The last minute of the series.
LAST = 700
C = 'consumer="c"'
REFUSALS = "idempotency_ledger_refusals_total"


def series(metric, labels, values):
    return {of(metric, labels): values}


def grown(*pieces):
    """A counter by the number of minutes, and by how much it grows in each of them."""
    values, value = ["0"], 0
    for minutes, growth in (*pieces, (LAST, 0)):
        values.append(f"{value + growth:.6f}+{growth}x{minutes - 1}")
        value += minutes * growth
    return " ".join(values)


def held(name, above, below, at, labels=A):
    """A gauge that has a value all the time."""
    return [(series(f"idempotency_ledger_{name}", labels, f"{above}x{LAST}"), at, series(f"idempotency_ledger_{name}", labels, f"{below}x{LAST}"))]


def first(metric, labels):
    """A counter of which one more event is an alert."""
    return [(series(metric, labels, f"0x60 1x{LAST}"), 61, series(metric, labels, f"0x{LAST}"))]


def first_or_new(metric, labels):
    """The same; or the event makes the series."""
    return first(metric, labels) + [(series(metric, labels, f"_x60 1x{LAST}"), 60, series(metric, labels, f"_x60 0x{LAST}"))]


def steady(metric, labels, above, below, at):
    """A counter that grows all the time."""
    return [(series(metric, labels, grown((LAST, above))), at, series(metric, labels, grown((LAST, below))))]


def ratio(metric, bad, good, above, below, at):
    """Two counters: how many of 1,000 a minute are bad."""
    def parts(share):
        return series(metric, bad, grown((LAST, share))) | series(metric, good, grown((LAST, 1_000 - share)))

    return [(parts(above), at, parts(below))]


# Calls a minute; the pieces of bad ones, and of a little fewer; and when the page comes. In this order it is the last hour that
# decides, the last five minutes, the ten bad calls of the hour; the last six hours, the last half hour, the ten of six hours.
PAGES = [
    (100, 418, [[(400, 0), (200, growth)] for growth in (4.83, 4.77)]),
    (100, 416, [[(380, 0), (20, 10), (11, 0), (200, growth)] for growth in (1.45, 1.43)]),
    (10, 420, [[(400, 0), (200, growth)] for growth in (0.505, 0.495)]),
    (100, 580, [[(400, 0), (290, growth)] for growth in (1.203, 1.19)]),
    (100, 655, [[(400, 0), (200, 1.3), (40, 0), (50, growth)] for growth in (1.21, 1.19)]),
    (2, 500, [[(400, 0), (290, growth)] for growth in (0.101, 0.099)]),
]


def page(method):
    def handled(calls, pieces):
        labels = f'grpc_service="{SERVICE}",grpc_method="{method}",grpc_code='
        good = grown(*((minutes, calls - growth) for minutes, growth in pieces))
        return series(alerts.HANDLED, f'{labels}"OK"', good) | series(alerts.HANDLED, f'{labels}"Unavailable"', grown(*pieces))

    return [(handled(calls, above), at, handled(calls, below)) for calls, at, (above, below) in PAGES]


def until(name, seconds):
    """A time of which this is left at the minute 60."""
    return [(series(f"idempotency_ledger_{name}", A, f"{seconds + 3_600}x{LAST}"), 66, None)]


def memory(mb):
    return BUILD | series("process_resident_memory_bytes", A, f"{mb}000000x{LAST}")


def slow(of_thousand):
    """Statements of which this number in 1,000 takes longer than half a second."""
    name, labels = "idempotency_ledger_store_statement_seconds_bucket", 'statement="insert",le='
    return {**series(name, f'{labels}"0.5"', grown((LAST, 1_000 - of_thousand))), **series(name, f'{labels}"1.0"', grown((LAST, 1_000))),
            **series(name, f'{labels}"+Inf"', grown((LAST, 1_000)))}


def reclaims(growth, acquired):
    return series("idempotency_ledger_reclaims_total", C, grown((LAST, growth))) | series(alerts.CLAIMS, f'{C},verdict="acquired"', grown((LAST, acquired)))


def waits(refused, others):
    name = "idempotency_ledger_wait_seconds_count"
    return series(name, f'outcome="no_place",{A}', grown((LAST, refused))) | series(name, f'outcome="answered",{A}', grown((LAST, others)))


def named_other(labels, fired=None):
    """Claims that are counted under `other`; the labels of the alert are those of its test in alerts.py if they are not named."""
    labels = f'{labels},verdict="acquired"'
    return [(series(alerts.CLAIMS, labels, grown((60, 0), (LAST, 1))), 71, series(alerts.CLAIMS, labels, f"0x{LAST}"), fired)]


INBOX = series("idempotency_ledger_inbox_messages", f'{C},kind="due",{A}', f"0x{LAST}")
RELEASES = "idempotency_ledger_releases_in_a_row"
# The alert; its edges: series, the first minute at which they fire, and series that do not fire then.
EDGES = {
    "ClaimsBad": page("Claim"),
    "CompletionsBad": page("Complete"),
    "Absent": [(series("idempotency_ledger_build_info", A, "1x60 stale"), 66, None)],
    "CertificateEnds": until(alerts.ENDS, DAY),
    "CertificateEndsSoon": until(alerts.ENDS, 7 * DAY),
    "RevocationListOld": until(alerts.LIST_ENDS, 0),
    "DuplicateSpike": ratio(alerts.CLAIMS, f'{C},verdict="completed"', f'{C},verdict="acquired"', 505, 495, 16),
    "OldestClaimable": held("entries_oldest_seconds", 3_601, 3_600, 15, f'{C},kind="claimable"'),
    "StaleLeases": held("entries_oldest_seconds", 901, 900, 2, f'{C},kind="expired"'),
    "Parked": held("entries", 1, 0, 5, f'{C},state="parked",{A}'),
    "InboxOldestDue": held("inbox_oldest_due_seconds", 901, 900, 5, C),
    "InboxBacklog": held("inbox_messages", 100_001, 100_000, 5, f'{C},kind="due"'),
    "InboxMessageGivenUp": [(fires | INBOX, at, calm | INBOX) for fires, at, calm in
                            first_or_new("idempotency_ledger_attempts_failed_total", f'{C},kind="terminal",{A}')],
    "InboxFull": first("idempotency_ledger_inbox_stores_total", f'outcome="backlog_full",{A}'),
    "TerminalFailures": first("idempotency_ledger_attempts_failed_total", f'{C},kind="terminal",{A}'),
    "EntriesNotCounted": [(series("idempotency_ledger_entries_counted_timestamp_seconds", A, f"2745x{LAST}"), 66,
                          series("idempotency_ledger_entries_counted_timestamp_seconds", A, f"2770x{LAST}"))],
    "ReleasedAgainAndAgain": [(series(f"{RELEASES}_count", C, f"0x60 1x{LAST}") | series(f"{RELEASES}_bucket", f'{C},le="5"', f"0x{LAST}"), 61,
                               series(f"{RELEASES}_count", C, f"0x60 1x{LAST}") | series(f"{RELEASES}_bucket", f'{C},le="5"', f"0x60 1x{LAST}"))],
    "FingerprintMismatch": first_or_new(alerts.CLAIMS, f'{C},verdict="fingerprint_mismatch"'),
    "OutsideWindow": first_or_new(alerts.CLAIMS, f'{C},verdict="outside_window"'),
    "ReplayReachesSideEffects": first_or_new(alerts.REPLAYS, f'{C},replay="true",verdict="refused"'),
    "ContradictoryHolders": first("idempotency_ledger_alerts_total", f'reason="CLAIM_CLOSED",{A}'),
    "DoubledEffects": first_or_new("idempotency_ledger_doubled_effects_total", f"{C},{A}"),
    "CompletesSuperseded": first(alerts.COMPLETIONS, f'{C},operation="complete",outcome="superseded"'),
    "ManyReclaims": [(reclaims(10.1, 200), 1, reclaims(9.9, 200)), (reclaims(0.168, 1), 30, reclaims(0.165, 1))],
    "TokensFromFuture": first("idempotency_ledger_alerts_total", f'reason="TOKEN_FROM_FUTURE",{A}'),
    "LostInserts": first("idempotency_ledger_alerts_total", f'reason="ENTRY_NOT_FOUND",{A}'),
    "CommitsLost": first_or_new("idempotency_ledger_store_losses_total", A),
    "KeyCollision": first(REFUSALS, f'reason="KEY_COLLISION",{A}'),
    "PurgeBehind": held("purge_oldest_due_seconds", 1_801, 1_800, 30)
                   + steady("idempotency_ledger_purge_failures_total", A, 0.336, 0.33, 60),
    "StoreGone": held("store_ready", 0, 1, 2),
    "StoreSlow": [(slow(10.1), 11, slow(9.9))],
    "OutcomesUnknown": steady(REFUSALS, f'reason="OUTCOME_UNKNOWN",{A}', 0.672, 0.66, 15),
    "ClockBehind": held("store_clock_behind_seconds", 1, 0, 1),
    "ClockAhead": held("store_clock_ahead_seconds", 1, 0, 1),
    "PoliciesStale": held("policies_age_seconds", 10.1, 10, 2),
    "PoliciesUnreadable": held("policies_unreadable", 1, 0, 5),
    "Refusals": steady(REFUSALS, f'reason="OVERLOADED",{A}', 6.06, 5.94, 20),
    "WaitsRefused": [(waits(101, 899), 11, waits(99, 901)), (waits(1.01, 1), 20, waits(0.99, 1))],
    "PrincipalLimited": steady("idempotency_ledger_principal_refusals_total", f'limit="rate",{A}', 6.06, 5.94, 20),
    "ServerFull": [(full, at + 1, calm) for full, at, calm in first("idempotency_ledger_server_full_total", f'resource="request_bytes",{A}')],
    "StreamsEnded": steady("idempotency_ledger_streams_ended_total", f'why="answer_stalled",{A}', 10.1, 9.9, 20),
    "ConnectionsClosed": steady("idempotency_ledger_connections_closed_total", f'why="per_address",{A}', 10.1, 9.9, 20),
    "CountedAsOther": named_other('consumer="other"') + named_other(f'{C},event_type="other"', {"consumer": "c"}),
    "SessionsMissing": [(alerts.gauge("store_sessions", 1) | alerts.gauge("store_sessions_wanted", 2), 5,
                         alerts.gauge("store_sessions", 2) | alerts.gauge("store_sessions_wanted", 2))],
    "CredentialFilesFailing": held(alerts.FAILING, 1, 0, 5, alerts.TOKENS),
    "CallersRefused": steady(REFUSALS, f'reason="UNAUTHENTICATED",{A}', 10.1, 9.9, 10),
    "LogLinesDropped": first("idempotency_ledger_log_lines_dropped_total", A),
    "InvalidRequests": steady(REFUSALS, f'reason="INVALID_FIELD",{A}', 0.336, 0.33, 30),
    "FieldsCorrected": first("idempotency_ledger_corrected_fields_total", f'field="result",{A}'),
    "Memory": [(memory(1_001), 15, memory(1_000))],
}


def moved(rule):
    """The rule with one of its numbers moved: what was moved, and the rule."""
    for found in THRESHOLD.finditer(rule["expr"]):
        zero = AROUND_NOW if "time()" in rule["expr"] else AROUND_ZERO
        for number in zero if found[1] == "0" else (f"({UP} * ({found[1]}))", f"({DOWN} * ({found[1]}))"):
            yield f"{number} for {found[1]}", rule | {"expr": f"{rule['expr'][:found.start()]}{number}{rule['expr'][found.end():]}"}
    minutes = int(rule.get("for", "0m").removesuffix("m"))
    for other in {minutes + 1, max(minutes - 1, 0)} - {minutes}:
        yield f"for: {other}m instead of {minutes}m", rule | {"for": f"{other}m"}


def failing(rules, tests):
    """The alerts of which a test fails; and the output where it is about something else. Tests by how often rules are evaluated."""
    with tempfile.TemporaryDirectory(prefix="ledger-edges-") as folder:
        (pathlib.Path(folder) / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "tested", "rules": rules}]}))
        for interval, some in tests.items():
            wanted = {"rule_files": ["rules.yaml"], "evaluation_interval": f"{interval}m", "tests": some}
            (pathlib.Path(folder) / f"tests-{interval}.yaml").write_text(yaml.safe_dump(wanted))
        files = sorted(str(file) for file in pathlib.Path(folder).glob("tests-*.yaml"))
        done = subprocess.run(["promtool", "test", "rules", *files], capture_output=True, text=True)
    output = done.stdout + done.stderr
    return re.findall(r"alertname: (\w+), time: (\w+)", output), output if done.returncode else ""


def tests_of(name, names, waits):
    """The edges of an alert, for the rules of these names. A rule that does not wait is evaluated at the asked minute alone."""
    labels = next(labels for one, labels, *_ in alerts.TABLE if one == name)
    severity = {"severity": alerts.alerts()[alerts.PREFIX + name]["labels"]["severity"]}
    tests = {}
    for fires, at, calm, *named in EDGES[name]:
        fired = [{"exp_labels": {**next(filter(None, named), labels), **severity}}]
        for values, time, expected in [(fires, at - 1, []), (fires, at, fired)] + [(calm, at, [])] * (calm is not None):
            asked = [{"eval_time": f"{time}m", "alertname": one, "exp_alerts": expected} for one in names]
            inputs = [{"series": one, "values": text} for one, text in values.items()]
            tests.setdefault(1 if waits else max(time, 1), []).append({"interval": "1m", "alert_rule_test": asked, "input_series": inputs})
    return tests


def rules_of(name, text=None):
    """The rules that an alert needs, and then its own, without annotations."""
    every = [rule for group in yaml.safe_load(text or alerts.RULES.read_text())["groups"] for rule in group["rules"]]
    alert = next(rule for rule in every if rule.get("alert") == alerts.PREFIX + name)
    needed = [rule for rule in every if rule.get("record") and rule["record"] in alert["expr"]]
    return needed, {part: value for part, value in alert.items() if part != "annotations"}


def check_one(name, text=None):
    """The faults of the edges of an alert; and how often one of its numbers was moved."""
    if name not in EDGES:
        return [f"{alerts.PREFIX}{name} has no edges in tests/observe/edges.py"], 0
    needed, rule = rules_of(name, text)
    variants = [("as it is", rule), *moved(rule)]
    named = [variant | {"alert": f"{rule['alert']}{number}"} for number, (_, variant) in enumerate(variants)]
    failed, output = failing(needed + named, tests_of(name, [variant["alert"] for variant in named], "for" in rule))
    seen = {alert for alert, _ in failed}
    if named[0]["alert"] in seen or output and not failed:
        wrong = [f"{alert} at {time}" for alert, time in failed if alert == named[0]["alert"]]
        return [f"{rule['alert']}: its edges are elsewhere: {wrong or output[:2000]}"], len(named) - 1
    return [f"{rule['alert']}: no edge notices {what}" for (what, _), variant in zip(variants[1:], named[1:], strict=True)
            if variant["alert"] not in seen], len(named) - 1


def shipped_memory():
    """The places that limit the memory of a server, and the limits in bytes."""
    units = {"Mi": 1 << 20, "m": 1 << 20}
    places = {"deploy/helm/idempotency-ledger/values.yaml": r"limits:\s+memory: (\d+)(Mi)", "deploy/kubernetes/deployment.yaml": r"limits:\s+memory: (\d+)(Mi)",
              "deploy/compose.yaml": r"  server:\n(?:    .*\n|\n)*?    mem_limit: (\d+)(m)"}
    for place, pattern in places.items():
        found = re.search(pattern, (ROOT / place).read_text())
        yield place, found and int(found[1]) * units[found[2]]


def limits():
    """Thresholds that are near a limit: the alert comes before the limit, and not in the calm."""
    problems = []
    threshold = float(THRESHOLD.search(alerts.alerts()[f"{alerts.PREFIX}Memory"]["expr"])[1])
    for place, limit in shipped_memory():
        if not limit or not 0.5 * limit <= threshold <= 0.8 * limit:
            problems.append(f"{alerts.PREFIX}Memory: {threshold:.0f} bytes must be 50 to 80 % of the limit that {place} sets, {limit}")
    trusted = re.search(r"POLICIES_TRUSTED_FOR: Duration = Duration::from_secs\((\d+)\)", (ROOT / "src/server/config/checked.rs").read_text())
    stale = THRESHOLD.search(alerts.alerts()[f"{alerts.PREFIX}PoliciesStale"]["expr"])[1]
    if not trusted or trusted[1] != stale:
        problems.append(f"{alerts.PREFIX}PoliciesStale: {stale} s must be how long a server trusts its policies, {trusted and trusted[1]} s")
    return problems


# Mistakes that the edges must see: of which alert, and what is written instead of what.
BREAKS = [
    ("StoreGone", "store_ready == 0\n        for: 2m", "store_ready == 0\n        for: 3m"),
    ("StoreSlow", "statement_seconds_bucket[10m]))) > 0.5", "statement_seconds_bucket[10m]))) > 0.6"),
    ("Memory", "bytes > 1e9", "bytes > 1e8"),
    ("OutcomesUnknown", 'reason="OUTCOME_UNKNOWN"}[15m])) > 10', 'reason="OUTCOME_UNKNOWN"}[15m])) > 11'),
    ("CompletionsBad", "completions_bad:ratio_rate6h > 6 * 0.001", "completions_bad:ratio_rate6h > 7 * 0.001"),
]


def unseen():
    problems = []
    for name, old, new in BREAKS:
        text = alerts.RULES.read_text()
        assert text.count(old) == 1, f"{name}: {old!r} is not in {alerts.RULES.name} once"
        if not check_one(name, text.replace(old, new))[0]:
            problems.append(f"no edge sees that {name} has {new!r} for {old!r}")
    return problems


def check():
    """The faults, the number of edges, and how often a number of a rule was moved."""
    problems, moves = limits(), 0
    names = [name.removeprefix(alerts.PREFIX) for name in alerts.alerts()]
    problems += [f"{name} has edges, and is not an alert" for name in EDGES if name not in names]
    for name in names:
        wrong, number = check_one(name)
        problems, moves = problems + wrong, moves + number
    return problems + unseen(), sum(map(len, EDGES.values())), moves
