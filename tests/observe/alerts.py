"""The alerts of deploy/alerts: each once firing and once not, by promtool's unit tests."""

import pathlib
import subprocess
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy/alerts/rules.yaml"
OPERATOR = ROOT / "deploy/alerts/prometheusrule.yaml"
RUNBOOKS = ROOT / "docs/runbooks.md"
PREFIX = "IdempotencyLedger"
SEVERITIES = {"page", "ticket"}

CLAIMS, COMPLETIONS = "idempotency_ledger_claims_total", "idempotency_ledger_settlements_total"
REPLAYS = "idempotency_ledger_replay_claims_total"
HANDLED, TOOK = "grpc_server_handled_total", "grpc_server_handling_seconds"
SERVICE = "idempotency.ledger.v1.LedgerService"
A, GROWS, STANDS = 'instance="a"', "0+60x200", "5x200"


def of(metric, labels=""):
    return f"{metric}{{{labels}}}" if labels else metric


def oldest(seconds, kind="claimable"):
    return {of("idempotency_ledger_entries_oldest_seconds", f'consumer="c",kind="{kind}"'): f"{seconds}x200"}


def threshold(alert, value):
    return {of("idempotency_ledger:threshold", f'alert="{alert}",consumer="c"'): f"{value}x200"}


def claims(consumer="c", **verdicts):
    return {of(CLAIMS, f'consumer="{consumer}",verdict="{verdict}"'): f"0+{count}x200" for verdict, count in verdicts.items()}


def typed(event_type):
    return {of(CLAIMS, f'consumer="c",event_type="{event_type}",verdict="acquired"'): GROWS}


def replays(**verdicts):
    return {of(REPLAYS, f'consumer="c",replay="true",verdict="{verdict}"'): f"0+{count}x200" for verdict, count in verdicts.items()}


def completions(**outcomes):
    return {of(COMPLETIONS, f'consumer="c",operation="complete",outcome="{outcome}"'): f"0+{count}x200"
            for outcome, count in outcomes.items()}


def calls(method, service=SERVICE, **codes):
    return {of(HANDLED, f'grpc_service="{service}",grpc_method="{method}",grpc_code="{code}"'): f"0+{count}x200"
            for code, count in codes.items()}


def took(method, fast, all_of_them):
    return {of(TOOK + "_bucket", f'grpc_service="{SERVICE}",grpc_method="{method}",le="1"'): f"0+{fast}x200",
            of(TOOK + "_count", f'grpc_service="{SERVICE}",grpc_method="{method}"'): f"0+{all_of_them}x200",
            **calls(method, OK=all_of_them)}


def parked(count, instance=A):
    return {of("idempotency_ledger_entries", f'consumer="c",state="parked",{instance}'): f"{count}x200"}


def releases(up_to_five, all_of_them):
    return {of("idempotency_ledger_releases_in_a_row_bucket", 'consumer="c",le="5"'): f"0+{up_to_five}x200",
            of("idempotency_ledger_releases_in_a_row_count", 'consumer="c"'): f"0+{all_of_them}x200"}


def told(reason, values):
    return {of("idempotency_ledger_alerts_total", f'reason="{reason}",{A}'): values}


def waits(**outcomes):
    return {of("idempotency_ledger_wait_seconds_count", f'outcome="{outcome}",{A}'): f"0+{count}x200" for outcome, count in outcomes.items()}


def doubled(values):
    return {of("idempotency_ledger_doubled_effects_total", f'consumer="c",{A}'): values}


def refused(reason, values):
    return {of("idempotency_ledger_refusals_total", f'reason="{reason}",{A}'): values}


def failed(kind, values):
    return {of("idempotency_ledger_attempts_failed_total", f'consumer="c",kind="{kind}",{A}'): values}


def inbox(name, value, more=""):
    return {of(f"idempotency_ledger_inbox_{name}", f'consumer="c",{A}{more}'): f"{value}x200"}


def stores(outcome, values):
    return {of("idempotency_ledger_inbox_stores_total", f'outcome="{outcome}",{A}'): values}


def reclaims(values):
    values = values if isinstance(values, str) else f"0+{values}x200"
    return {of("idempotency_ledger_reclaims_total", 'consumer="c"'): values}


def corrected(field, values):
    return {of("idempotency_ledger_corrected_fields_total", f'field="{field}",{A}'): values}


def gauge(name, value, labels=A):
    return {of(f"idempotency_ledger_{name}", labels): f"{value}x200"}


def statement(name, fast, all_of_them):
    return {of("idempotency_ledger_store_statement_seconds_bucket", f'statement="{name}",le="{le}"'): f"0+{count}x200"
            for le, count in [("0.5", fast), ("1.0", all_of_them), ("+Inf", all_of_them)]}


def limited(limit, values, instance=A):
    return {of("idempotency_ledger_principal_refusals_total", f'limit="{limit}",{instance}'): values}


def full(resource, values, instance=A):
    return {of("idempotency_ledger_server_full_total", f'resource="{resource}",{instance}'): values}


def ended(why, values, instance=A):
    return {of("idempotency_ledger_streams_ended_total", f'why="{why}",{instance}'): values}


def closed(why, values, instance=A):
    return {of("idempotency_ledger_connections_closed_total", f'why="{why}",{instance}'): values}


BUILD = gauge("build_info", 1)
ENDS, FAILING, DAY = "tls_certificate_expiry_timestamp_seconds", "credential_files_failing", 86_400
LIST_ENDS = "tls_revocation_list_expiry_timestamp_seconds"
TOKENS, RIGHTS = f'setting="tokens_file",{A}', f'setting="rights_file",{A}'
CALLED, COMPLETED = calls("Claim", OK=100), calls("Complete", OK=100)

# What fires, the labels that it has, the series that make it fire, and some that do not.
TABLE = [
    ("ClaimsBad", {}, CALLED | claims(acquired=98, unavailable=2), CALLED | claims(acquired=98, rejected=2)),
    ("ClaimsBad", {}, CALLED | claims(acquired=98, unanswered=2), CALLED | claims(acquired=99_990, unavailable=2)),
    ("ClaimsBad", {}, calls("BatchClaim", OK=98, Unavailable=2), calls("Claim", OK=98, InvalidArgument=2)),
    # A consumer above its quota wakes nobody, and neither does another service.
    ("ClaimsBad", {}, calls("Claim", OK=98, Internal=2), calls("Claim", OK=90, ResourceExhausted=10)),
    ("ClaimsBad", {}, took("Claim", 98, 100), took("Claim", 100, 100) | calls("Claim", service="other.Claims", Unavailable=99)),
    # One call a minute, of which one in an hour is slow.
    ("ClaimsBad", {}, took("Claim", 98, 100),
     took("Claim", 1, 1) | {of(TOOK + "_bucket", f'grpc_service="{SERVICE}",grpc_method="Claim",le="1"'): "0+1x195 195+1x4"}),
    # A bad minute is over: the last five are well.
    ("ClaimsBad", {}, CALLED | claims(acquired=99, unavailable=2),
     CALLED | claims(acquired=99) | {of(CLAIMS, 'consumer="c",verdict="unavailable"'): "0x160 600x40"}),
    ("CompletionsBad", {}, COMPLETED | completions(ok=98, unavailable=2), COMPLETED | completions(ok=98, rejected=2)),
    ("CompletionsBad", {}, COMPLETED | completions(ok=98, unanswered=2), COMPLETED | completions(ok=98, superseded=2)),
    ("CompletionsBad", {}, calls("Complete", OK=98, DeadlineExceeded=2), calls("BatchSettle", OK=98, Aborted=2)),
    ("CompletionsBad", {}, took("BatchSettle", 98, 100), took("Complete", 100, 100)),
    ("Absent", {}, {}, BUILD),
    # The rules are evaluated at 11,700 s, and five minutes later.
    ("CertificateEnds", {"instance": "a"}, gauge(ENDS, 11_699 + DAY), gauge(ENDS, 11_700 + DAY)),
    # It has ended; and where there is no certificate, there is no series.
    ("CertificateEnds", {"instance": "a"}, gauge(ENDS, 6_000), BUILD),
    # Somebody went back to an older one; it was replaced in time.
    ("CertificateEnds", {"instance": "a"}, {of("idempotency_ledger_" + ENDS, A): "900000x180 90000x20"},
     {of("idempotency_ledger_" + ENDS, A): "50000x180 900000x20"}),
    ("CertificateEndsSoon", {"instance": "a"}, gauge(ENDS, 11_699 + 7 * DAY), gauge(ENDS, 11_700 + 7 * DAY)),
    ("RevocationListOld", {"instance": "a"}, gauge(LIST_ENDS, 11_699), gauge(LIST_ENDS, 11_700)),
    ("RevocationListOld", {"instance": "a"}, gauge(LIST_ENDS, 6_000), BUILD),
    ("CredentialFilesFailing", {"instance": "a", "setting": "tokens_file"}, gauge(FAILING, 1, TOKENS), gauge(FAILING, 0, TOKENS)),
    # It is replaced part by part; another file fails for a while.
    ("CredentialFilesFailing", {"instance": "a", "setting": "rights_file"},
     {of("idempotency_ledger_" + FAILING, RIGHTS): "0x193 1x20", of("idempotency_ledger_" + FAILING, TOKENS): "0x196 1x2 0x9"},
     {of("idempotency_ledger_" + FAILING, RIGHTS): "0x196 1x20", of("idempotency_ledger_" + FAILING, TOKENS): "1x193 0x9"}),
    ("CallersRefused", {"reason": "UNAUTHENTICATED"}, refused("UNAUTHENTICATED", "0x195 180x9"), refused("UNAUTHENTICATED", "0+1x200")),
    # A few at each of two servers; what was is over.
    ("CallersRefused", {"reason": "CONSUMER_NOT_ALLOWED"},
     refused("CONSUMER_NOT_ALLOWED", "0+6x200") | {of("idempotency_ledger_refusals_total", 'reason="CONSUMER_NOT_ALLOWED",instance="b"'): "0+6x200"},
     refused("CONSUMER_NOT_ALLOWED", "0+60x180 10800x20") | refused("INVALID_FIELD", GROWS)),
    ("DuplicateSpike", {"consumer": "c"}, claims(acquired=4, completed=6), claims(acquired=6, completed=4)),
    ("DuplicateSpike", {"consumer": "c"}, claims(acquired=8, completed=2) | threshold("DuplicateSpike", 0.1),
     claims(acquired=2, completed=8) | threshold("DuplicateSpike", 0.9)),
    ("OldestClaimable", {"consumer": "c"}, oldest(3_601), oldest(3_600)),
    ("OldestClaimable", {"consumer": "c"}, oldest(61) | threshold("OldestClaimable", 60),
     oldest(7_000) | threshold("OldestClaimable", 86_400)),
    ("StaleLeases", {"consumer": "c"}, oldest(901, kind="expired"), oldest(900, kind="expired")),
    # Two servers count the same entries.
    ("Parked", {"consumer": "c"}, parked(1) | parked(1, 'instance="b"'), parked(0) | parked(0, 'instance="b"')),
    ("InboxOldestDue", {"consumer": "c"}, inbox("oldest_due_seconds", 901), inbox("oldest_due_seconds", 900)),
    ("InboxOldestDue", {"consumer": "c"}, inbox("oldest_due_seconds", 61) | threshold("InboxOldestDue", 60),
     inbox("oldest_due_seconds", 7_000) | threshold("InboxOldestDue", 86_400)),
    ("InboxBacklog", {"consumer": "c"}, inbox("messages", 100_001, ',kind="due"'),
     inbox("messages", 100_000, ',kind="due"') | inbox("messages", 900_000, ',kind="later"')),
    ("InboxBacklog", {"consumer": "c"}, inbox("messages", 11, ',kind="due"') | threshold("InboxBacklog", 10),
     inbox("messages", 900_000, ',kind="due"') | threshold("InboxBacklog", 1_000_000)),
    # A consumer without an inbox has dead letters in its broker.
    ("InboxMessageGivenUp", {"consumer": "c"}, failed("terminal", "0x195 1x5") | inbox("messages", 0, ',kind="due"'),
     failed("terminal", "0x195 1x5")),
    ("InboxMessageGivenUp", {"consumer": "c"}, failed("terminal", "0x150 1x50") | inbox("messages", 0, ',kind="due"'),
     failed("terminal", "0x100 1x100") | failed("retryable", GROWS) | inbox("messages", 0, ',kind="due"')),
    # The first one makes the series; an hour later it is old.
    ("InboxMessageGivenUp", {"consumer": "c"}, failed("terminal", "_x180 1x20") | inbox("messages", 0, ',kind="due"'),
     failed("terminal", "_x100 1x100") | inbox("messages", 0, ',kind="due"')),
    ("InboxFull", {}, stores("backlog_full", "0x195 1x5"), stores("backlog_full", STANDS) | stores("inbox_off", GROWS)),
    ("EntriesNotCounted", {}, {of("idempotency_ledger_entries_counted_timestamp_seconds", A): "0+60x100 6000x100"},
     {of("idempotency_ledger_entries_counted_timestamp_seconds", A): "0+60x200"}),
    ("EntriesNotCounted", {}, gauge("entries_counted_timestamp_seconds", 0),
     {of("idempotency_ledger_entries_counted_timestamp_seconds", A): "0x200",
      of("idempotency_ledger_entries_counted_timestamp_seconds", 'instance="b"'): "0+60x200"}),
    ("Parked", {"consumer": "c"}, parked(1), parked(0)),
    ("Parked", {"consumer": "c"}, parked(11) | threshold("Parked", 10), parked(10) | threshold("Parked", 10)),
    ("ReleasedAgainAndAgain", {"consumer": "c"}, releases(9, 10), releases(10, 10)),
    ("FingerprintMismatch", {"consumer": "c"}, claims(acquired=9, fingerprint_mismatch=1), claims(acquired=10, fingerprint_mismatch=0)),
    # The first event makes the series, and is the only one; an hour later it is old.
    ("FingerprintMismatch", {"consumer": "c"}, {of(CLAIMS, 'consumer="c",verdict="fingerprint_mismatch"'): "_x180 1x20"},
     {of(CLAIMS, 'consumer="c",verdict="fingerprint_mismatch"'): "_x100 1x100"}),
    # A server that starts again begins at zero.
    ("FingerprintMismatch", {"consumer": "c"}, {of(CLAIMS, 'consumer="c",verdict="fingerprint_mismatch"'): "5x180 0x10 1x10"},
     {of(CLAIMS, 'consumer="c",verdict="fingerprint_mismatch"'): "5x180 0x20"}),
    ("OutsideWindow", {"consumer": "c"}, claims(outside_window=1), claims(completed=1, outside_window=0)),
    ("ReplayReachesSideEffects", {"consumer": "c"}, replays(suppressed=1), replays(acquired=1, completed=1, suppressed=0)),
    ("ReplayReachesSideEffects", {"consumer": "c"}, replays(refused=1), replays(acquired=9, refused=0) | claims(rejected=9)),
    # The first one makes the series; an hour later it is old.
    ("ReplayReachesSideEffects", {"consumer": "c"}, {of(REPLAYS, 'consumer="c",replay="true",verdict="refused"'): "_x180 1x20"},
     {of(REPLAYS, 'consumer="c",replay="true",verdict="refused"'): "_x100 1x100"}),
    ("ContradictoryHolders", {"reason": "CLAIM_CLOSED"}, told("CLAIM_CLOSED", "0x180 1x20"), told("CLAIM_CLOSED", STANDS) | told("LEASE_LOST", GROWS)),
    # One of the reports of a message alone, and a holder that repeats itself, are counted elsewhere.
    ("DoubledEffects", {"consumer": "c"}, doubled("0x180 1x20"), doubled("0x200") | completions(superseded=1, replayed=60)),
    # The first one makes the series; an hour later it is old.
    ("DoubledEffects", {"consumer": "c"}, doubled("_x180 1x20"), doubled("_x100 1x100")),
    ("TokensFromFuture", {}, told("TOKEN_FROM_FUTURE", "0x180 1x20"), told("TOKEN_FROM_FUTURE", "0x100 1x100")),
    ("LostInserts", {}, told("ENTRY_NOT_FOUND", "0x180 1x20"), told("ENTRY_NOT_FOUND", STANDS)),
    ("CommitsLost", {}, {of("idempotency_ledger_store_losses_total", A): "0x180 1x20"},
     {of("idempotency_ledger_store_losses_total", A): STANDS}),
    # Found at the start of a server, before its first scrape; an hour later it is old.
    ("CommitsLost", {}, {of("idempotency_ledger_store_losses_total", A): "_x180 1x20"},
     {of("idempotency_ledger_store_losses_total", A): "_x100 1x100"}),
    ("KeyCollision", {}, refused("KEY_COLLISION", "0x180 1x20"), refused("KEY_COLLISION", STANDS)),
    ("PurgeBehind", {}, gauge("purge_oldest_due_seconds", 1_801), gauge("purge_oldest_due_seconds", 1_800)),
    # It looks at another consumer now and then, which is on time.
    ("PurgeBehind", {}, {of("idempotency_ledger_purge_oldest_due_seconds", A): " ".join(["1801x7 0x0"] * 25)},
     {of("idempotency_ledger_purge_oldest_due_seconds", A): "1801x150 0x50"}),
    ("PurgeBehind", {}, {of("idempotency_ledger_purge_failures_total", A): "0+1x200"},
     {of("idempotency_ledger_purge_failures_total", A): "0x190 1x10"}),
    ("StoreGone", {"instance": "a"}, gauge("store_ready", 0), gauge("store_ready", 1)),
    ("StoreSlow", {"statement": "insert"}, statement("insert", 97, 100), statement("insert", 100, 100)),
    ("OutcomesUnknown", {}, refused("OUTCOME_UNKNOWN", "0+1x200"), refused("OUTCOME_UNKNOWN", "0x195 1x5")),
    ("ClockBehind", {"instance": "a"}, gauge("store_clock_behind_seconds", 1), gauge("store_clock_behind_seconds", 0)),
    ("ClockAhead", {"instance": "a"}, gauge("store_clock_ahead_seconds", 31708801), gauge("store_clock_ahead_seconds", 0)),
    ("PoliciesStale", {"instance": "a"}, gauge("policies_age_seconds", 11), gauge("policies_age_seconds", 10)),
    ("PoliciesUnreadable", {"instance": "a"}, gauge("policies_unreadable", 1), gauge("policies_unreadable", 0)),
    ("CompletesSuperseded", {"consumer": "c"}, completions(superseded=1), completions(late=1, replayed=1, ok=60)),
    ("ManyReclaims", {"consumer": "c"}, claims(acquired=10) | reclaims(1), claims(acquired=100) | reclaims(4)),
    # One of the two messages of a night.
    ("ManyReclaims", {"consumer": "c"}, claims(acquired=10) | reclaims(1), {of(CLAIMS, 'consumer="c",verdict="acquired"'): "0x195 2x5"} | reclaims("0x195 1x5")),
    ("TerminalFailures", {"consumer": "c"}, failed("terminal", "0x195 1x5"), failed("terminal", "0x60 1x140") | failed("retryable", GROWS)),
    ("InvalidRequests", {}, refused("INVALID_FIELD", "0+1x200"), refused("INVALID_FIELD", "0x195 8x5") | refused("CLAIM_CLOSED", GROWS)),
    ("FieldsCorrected", {"field": "result"}, corrected("result", "0x195 1x5"), corrected("result", "0x60 1x140")),
    ("Refusals", {"reason": "OVERLOADED"}, refused("OVERLOADED", GROWS), refused("OVERLOADED", "0+1x200")),
    ("Refusals", {"reason": "QUOTA_EXCEEDED"}, refused("QUOTA_EXCEEDED", GROWS), refused("INVALID_FIELD", GROWS)),
    ("PrincipalLimited", {"limit": "rate"}, limited("rate", GROWS), limited("rate", "0+1x200") | refused("QUOTA_EXCEEDED", GROWS)),
    # A few at each of two servers.
    ("PrincipalLimited", {"limit": "calls"}, limited("calls", "0+4x200") | limited("calls", "0+4x200", 'instance="b"'),
     limited("calls", "0+2x200") | limited("calls", "0+2x200", 'instance="b"')),
    ("WaitsRefused", {}, waits(no_place=12, answered=88), waits(no_place=9, over=60, answered=31)),
    # A call every five minutes, which finds its connection full.
    ("WaitsRefused", {}, waits(no_place=2), waits(no_place=0.2)),
    ("ServerFull", {"instance": "a", "resource": "request_bytes"}, full("request_bytes", "0x194 1x6"), full("request_bytes", STANDS)),
    ("ServerFull", {"instance": "a", "resource": "answer_bytes"}, full("answer_bytes", "0+1x200"), full("answer_bytes", "0x100 5x100")),
    ("StreamsEnded", {"why": "answer_stalled"}, ended("answer_stalled", "0+6x200") | ended("answer_stalled", "0+6x200", 'instance="b"'),
     ended("answer_stalled", "0+9x200")),
    ("ConnectionsClosed", {"why": "per_address"}, closed("per_address", "0+12x200"), closed("per_address", "0+9x200")),
    ("ConnectionsClosed", {"why": "stalled"}, closed("stalled", "0+6x200") | closed("stalled", "0+6x200", 'instance="b"'),
     closed("idle", GROWS) | closed("age", GROWS)),
    ("ConnectionsClosed", {"why": "opening"}, closed("opening", "0+12x200"), closed("opening", "0x160 1000x40")),
    ("ConnectionsClosed", {"why": "observe"}, closed("observe", "0+12x200"), closed("observe", "0+9x200")),
    ("CountedAsOther", {"consumer": "other"}, claims("other", acquired=1), claims("other", rejected=1, unanswered=1) | claims(acquired=9)),
    ("CountedAsOther", {"consumer": "c"}, typed("other"), typed("payment")),
    ("SessionsMissing", {"instance": "a"}, gauge("store_sessions", 1) | gauge("store_sessions_wanted", 2),
     gauge("store_sessions", 2) | gauge("store_sessions_wanted", 2)),
    ("LogLinesDropped", {"instance": "a"}, {of("idempotency_ledger_log_lines_dropped_total", A): "0+1x200"},
     {of("idempotency_ledger_log_lines_dropped_total", A): STANDS}),
    ("Memory", {"instance": "a"}, BUILD | {of("process_resident_memory_bytes", A): "2000000000x200"},
     BUILD | {of("process_resident_memory_bytes", A): "900000000x200", of("process_resident_memory_bytes", 'instance="b"'): "2000000000x200"}),
]


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def alerts():
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def unit_test(name, series, expected, at="200m"):
    """One of promtool's tests: which alerts of a name fire over these series; expected are their labels."""
    fired = [{"exp_labels": {**labels, "severity": alerts()[PREFIX + name]["labels"]["severity"]}} for labels in expected]
    inputs = [{"series": one, "values": values} for one, values in series.items()]
    return {"interval": "1m", "input_series": inputs,
            "alert_rule_test": [{"eval_time": at, "alertname": PREFIX + name, "exp_alerts": fired}]}


def promtool(tests, text=None):
    """Runs tests, those of each alert with the rules that it needs. The annotations are not looked at."""
    every = [rule for group in yaml.safe_load(text or RULES.read_text())["groups"] for rule in group["rules"]]
    problems, by_alert = [], {}
    for test in tests:
        by_alert.setdefault(test["alert_rule_test"][0]["alertname"], []).append(test)
    for name, tests_of_it in by_alert.items():
        alert = next(rule for rule in every if rule.get("alert") == name)
        needed = [rule for rule in every if rule.get("record") and rule["record"] in alert["expr"]] + [alert]
        bare = [{part: value for part, value in rule.items() if part != "annotations"} for rule in needed]
        with tempfile.TemporaryDirectory(prefix="ledger-alerts-") as folder:
            rules_file, file = pathlib.Path(folder) / "rules.yaml", pathlib.Path(folder) / "tests.yaml"
            rules_file.write_text(yaml.safe_dump({"groups": [{"name": "tested", "rules": bare}]}))
            file.write_text(yaml.safe_dump({"rule_files": [rules_file.name], "evaluation_interval": "5m", "tests": tests_of_it}))
            done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True)
        if done.returncode:
            problems.append(f"promtool: {done.stdout}{done.stderr}")
    return problems


# Mistakes that the tests must see: of which alert, and what is written instead of what.
BREAKS = [
    ("ClaimsBad", 'verdict=~"unavailable|unanswered"', 'verdict=~"unavailable"'),
    ("ClaimsBad", 'le="1"', 'le="10"'),
    ("ClaimsBad", "(idempotency_ledger:claims_bad:ratio_rate5m > 14.4", "(idempotency_ledger:claims_bad:ratio_rate1h > 14.4"),
    ("ClaimsBad", ">= 10)", ">= 0)"),
    ("ClaimsBad", "Internal|Unknown", "Internal|Unknown|ResourceExhausted"),
    ("ClaimsBad", 'grpc_service="idempotency.ledger.v1.LedgerService",', ""),
    ("DuplicateSpike", "> 0.5 unless", "> 0.6 unless"),
    ("DuplicateSpike", "        for: 15m\n", "        for: 300m\n"),
    ("OldestClaimable", 'alert="OldestClaimable"', 'alert="Oldest"'),
    ("FingerprintMismatch", "offset 1h) > 0", "offset 1h) > 1"),
    ("EntriesNotCounted", "max by (job)", "min by (job)"),
    ("PurgeBehind", "max_over_time(idempotency_ledger_purge_oldest_due_seconds[15m])", "idempotency_ledger_purge_oldest_due_seconds"),
    ("ReplayReachesSideEffects", "suppressed|refused", "refused"),
    ("ReplayReachesSideEffects", 'suppressed|refused"}[1h]', 'suppressed"}[1h]'),
    ("ContradictoryHolders", 'reason="CLAIM_CLOSED"', 'reason=~"CLAIM_CLOSED|LEASE_LOST"'),
    ("DoubledEffects", "doubled_effects_total[1h])) > 0", "doubled_effects_total[1h])) > 1"),
    ("DoubledEffects", "offset 1h) > 0", "offset 1h) > 1"),
    ("CertificateEnds", "time() < 86400", "time() < 8640"),
    ("CertificateEndsSoon", "time() < 7 * 86400", "time() < 86400"),
    ("CredentialFilesFailing", "credential_files_failing > 0\n        for: 5m", "credential_files_failing > 0\n        for: 0m"),
    ("InvalidRequests", 'reason="INVALID_FIELD"', 'reason=~"INVALID_FIELD|CLAIM_CLOSED"'),
    ("InvalidRequests", "[30m])) > 10", "[30m])) > 1"),
    ("CompletesSuperseded", 'outcome="superseded"', 'outcome=~"superseded|late"'),
    ("ManyReclaims", "[30m])) > 0.05", "[30m])) > 0.01"),
    ("ManyReclaims", ">= 5", ">= 0"),
    ("TerminalFailures", 'kind="terminal"', 'kind=~"terminal|retryable"'),
    ("InboxOldestDue", "            > 900 unless", "            > 9000 unless"),
    ("InboxOldestDue", 'unless on (consumer) idempotency_ledger:threshold{alert="InboxOldestDue"}', ""),
    ("InboxBacklog", 'inbox_messages{kind="due"})\n            > 100000', 'inbox_messages)\n            > 100000'),
    ("InboxMessageGivenUp", "            and on (job, consumer) idempotency_ledger_inbox_messages\n", ""),
    ("InboxMessageGivenUp", 'kind="terminal"}[1h]))', 'kind=~"terminal|retryable"}[1h]))'),
    ("InboxMessageGivenUp", 'unless idempotency_ledger_attempts_failed_total{kind="terminal"} offset 1h) > 0', 'unless idempotency_ledger_attempts_failed_total{kind="terminal"} offset 1h) > 1'),
    ("InboxFull", 'outcome="backlog_full"', 'outcome=~"backlog_full|inbox_off"'),
    ("CallersRefused", 'reason=~"UNAUTHENTICATED|CONSUMER_NOT_ALLOWED"', 'reason=~"UNAUTHENTICATED"'),
    ("CallersRefused", "}[10m])) > 100", "}[10m])) > 1"),
    ("RevocationListOld", "- time() < 0", "- time() < 3600"),
    ("PrincipalLimited", "principal_refusals_total", "refusals_total"),
    ("PrincipalLimited", "sum by (job, limit) (rate(idempotency_ledger_principal", "max by (job, limit) (rate(idempotency_ledger_principal"),
    ("WaitsRefused", 'rate(idempotency_ledger_wait_seconds_count{outcome="no_place"}', 'rate(idempotency_ledger_wait_seconds_count{outcome=~"no_place|over"}'),
    ("WaitsRefused", "[10m])) > 0.1", "[10m])) > 0.01"),
    ("WaitsRefused", "[10m])) > 10", "[10m])) > 0"),
    ("ServerFull", "server_full_total[10m])) > 0", "server_full_total[10m])) > 9"),
    ("ServerFull", "sum by (job, instance, resource)", "sum by (job, resource)"),
    ("StreamsEnded", "streams_ended_total[10m])) > 100", "streams_ended_total[10m])) > 1000"),
    ("StreamsEnded", "sum by (job, why) (increase(idempotency_ledger_streams", "max by (job, why) (increase(idempotency_ledger_streams"),
    ("ConnectionsClosed", "per_address|opening|stalled|observe", "per_address|opening|stalled|observe|idle"),
    ("ConnectionsClosed", "|stalled|observe", "|stalled"),
    ("ConnectionsClosed", "closed_total{why=~", "closed_total{why!~"),
    ("CountedAsOther", 'consumer="other",verdict!~', 'consumer="other",verdict=~'),
    ("CountedAsOther", 'event_type="other"', 'event_type=~".+"'),
    ("SessionsMissing", "store_sessions < ", "store_sessions > "),
    ("Memory", " and on (job, instance) idempotency_ledger_build_info", ""),
]


def unseen():
    """The mistakes that no test sees."""
    problems = []
    for name, old, new in BREAKS:
        text = RULES.read_text()
        assert old in text, f"{name}: {old!r} is not in {RULES.name}"
        tests = [test for one, labels, fires, calm in TABLE if one == name
                 for test in (unit_test(name, fires, [labels]), unit_test(name, calm, []))]
        if not promtool(tests, text.replace(old, new)):
            problems.append(f"nobody sees that {name} has {new!r} for {old!r}")
    return problems


def check():
    problems = unseen()
    done = subprocess.run(["promtool", "check", "rules", "--lint=all", "--lint-fatal", str(RULES)], capture_output=True, text=True)
    if done.returncode:
        problems.append(f"promtool check rules: {done.stdout}{done.stderr}")
    if yaml.safe_load(OPERATOR.read_text())["spec"] != {"groups": yaml.safe_load(RULES.read_text())["groups"]}:
        problems.append(f"{OPERATOR.name} has other rules than {RULES.name}")
    tests = []
    for name, labels, fires, calm in TABLE:
        tests += [unit_test(name, fires, [labels]), unit_test(name, calm, [])]
    problems += promtool(tests)
    tested = {PREFIX + name for name, *_ in TABLE}
    text = RUNBOOKS.read_text()
    for name, rule in alerts().items():
        if name not in tested:
            problems.append(f"{name} is in no test")
        if rule["labels"]["severity"] not in SEVERITIES:
            problems.append(f"{name} has no severity")
        base = "{{ with $externalLabels.runbooks }}{{ . }}{{ else }}docs/{{ end }}"
        if rule["annotations"].get("runbook_url") != f"{base}runbooks.md#{name.lower()}":
            problems.append(f"{name}: runbook_url does not lead to its paragraph, below a base that can be set")
        if rule["annotations"].get("runbook") != f"docs/runbooks.md#{name.lower()}" or not rule["annotations"].get("summary"):
            problems.append(f"{name} has no summary, or names no paragraph of docs/runbooks.md")
        if f"\n### {name}\n" not in text:
            problems.append(f"docs/runbooks.md has no paragraph ### {name}")
    for heading in (line[4:] for line in text.splitlines() if line.startswith(f"### {PREFIX}")):
        if heading not in alerts():
            problems.append(f"docs/runbooks.md: no alert is called {heading}")
    return problems, len(tests)
