"""Makes ledger.json, the Grafana dashboard of the idempotency ledger, by Grafana's own package:

    pip install grafana-foundation-sdk
    python deploy/dashboards/ledger.py > deploy/dashboards/ledger.json

The first row tells in ten seconds whether the ledger is well; the others tell why not.
"""

from grafana_foundation_sdk.builders import dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizLegendOptions
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import BigValueColorMode, LegendDisplayMode, LegendPlacement
from grafana_foundation_sdk.models.dashboard import DataSourceRef, Threshold, ThresholdsMode

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
HEIGHT, STAT_HEIGHT = 8, 4
WIDTH = 24


def quantile(metric, by, selector=""):
    buckets = f"sum by (le, {by}) (rate({metric}_bucket{{{selector}}}[$__rate_interval]))"
    return f"histogram_quantile(0.99, {buckets})"


def rate(metric, by, selector=""):
    return f"sum by ({by}) (rate({metric}{{{selector}}}[$__rate_interval]))"


def mean(metric, by, selector=""):
    return f"{rate(f'{metric}_sum', by, selector)} / {rate(f'{metric}_count', by, selector)}"


MINE = 'consumer=~"$consumer"'

OURS = 'grpc_service=~"idempotency.ledger.*"'
CLAIM_CALLS = OURS + ', grpc_method=~"Claim|BatchClaim"'

# Title, query, unit, thresholds of yellow and red (`None` if no value is bad). For the first panel low values are bad.
WELL = [
    ("Servers that serve", "sum(idempotency_ledger_store_ready) or vector(0)", "short", "none is red"),
    ("Servers without a store", "sum(1 - idempotency_ledger_store_ready)", "short", (1, 1)),
    ("Claims a second", "sum(rate(idempotency_ledger_claims_total[$__rate_interval]))", "ops", None),
    ("Claims that the ledger could not answer",
     'sum(rate(idempotency_ledger_claims_total{verdict=~"unavailable|unanswered"}[$__rate_interval]))'
     " / sum(rate(idempotency_ledger_claims_total[$__rate_interval]))", "percentunit", (0.001, 0.0144)),
    ("99 % of Claims take less than",
     "histogram_quantile(0.99, sum by (le) (rate(grpc_server_handling_seconds_bucket"
     f"{{{CLAIM_CALLS}}}[$__rate_interval])))", "s", (0.25, 1)),
    ("Messages that wait for a person", 'sum(max by (consumer) (idempotency_ledger_entries{state="parked"}))', "short", (1, 100)),
    ("Oldest message that waits for another attempt", 'max(idempotency_ledger_entries_oldest_seconds{kind="claimable"})', "s", (600, 3600)),
    ("Contradictions, losses and doubled effects in an hour",
     "sum(increase(idempotency_ledger_alerts_total[1h])) + sum(increase(idempotency_ledger_doubled_effects_total[1h]))", "short", (1, 1)),
]

# A row; each panel: title, what it tells, unit, and its queries with the names of their lines.
ROWS = [
    ("By consumer", [
        ("Claims by verdict", "unavailable and unanswered: the ledger could not", "ops",
         [(rate("idempotency_ledger_claims_total", "verdict", MINE), "{{verdict}}")]),
        ("Duplicates", "The part of claims whose message was done already", "percentunit",
         [(rate("idempotency_ledger_claims_total", "consumer", MINE + ', verdict="completed"') + " / "
           + rate("idempotency_ledger_claims_total", "consumer", MINE), "{{consumer}}")]),
        ("Claims by event type", "What their callers call them; without a name where they do not tell", "ops",
         [("topk(20, " + rate("idempotency_ledger_claims_total", "consumer, event_type", MINE) + ")", "{{consumer}} {{event_type}}")]),
        ("Failed attempts", "By what their holders say of another attempt", "ops",
         [(rate("idempotency_ledger_attempts_failed_total", "consumer, event_type, kind", MINE), "{{consumer}} {{event_type}} {{kind}}")]),
        ("Claims in place of expired ones", "Their holders were lost, or their lease was too short", "ops",
         [(rate("idempotency_ledger_reclaims_total", "consumer", MINE), "{{consumer}}")]),
        ("Doubled effects", "Two holders of one message have reported its effect as done", "short",
         [(f"sum by (consumer) (increase(idempotency_ledger_doubled_effects_total{{{MINE}}}[$__rate_interval]))", "{{consumer}}")]),
        ("Messages parked", "Why they wait for a person", "ops",
         [(rate("idempotency_ledger_parked_total", "consumer, cause", MINE), "{{consumer}} {{cause}}")]),
        ("Claims in replay runs", "suppressed: acknowledged unprocessed. refused: the run is not open, or replays are forbidden", "ops",
         [(rate("idempotency_ledger_replay_claims_total", "consumer, event_type, verdict", MINE), "{{consumer}} {{event_type}} {{verdict}}")]),
        ("Settlements", "late: after the lease. superseded: the message had gone to another claim", "ops",
         [(rate("idempotency_ledger_settlements_total", "operation, outcome", MINE), "{{operation}} {{outcome}}")]),
        ("99 % of claims are held for less than", "From the grant to Complete; compare it with the lease", "s",
         [(quantile("idempotency_ledger_claim_held_seconds", "consumer, event_type", MINE + ', operation="complete"'),
           "{{consumer}} {{event_type}}")]),
        ("Attempts that a completion takes", "On the average; 1 where nothing fails", "short",
         [(mean("idempotency_ledger_completion_attempts", "consumer", MINE), "{{consumer}}")]),
        ("Releases in a row", "On the average; a message that is always given back never ends", "short",
         [(mean("idempotency_ledger_releases_in_a_row", "consumer", MINE), "{{consumer}}")]),
    ]),
    ("What waits", [
        ("Entries", "Every server counts all of them", "short",
         [(f"max by (consumer, state) (idempotency_ledger_entries{{{MINE}, state!='completed'}})", "{{consumer}} {{state}}")]),
        ("Age of the oldest", "expired: since its lease and grace are over", "s",
         [(f"max by (consumer, kind) (idempotency_ledger_entries_oldest_seconds{{{MINE}}})", "{{consumer}} {{kind}}")]),
        ("Expired claims", "Their messages were not claimed again", "short",
         [(f"max by (consumer) (idempotency_ledger_entries_expired{{{MINE}}})", "{{consumer}}")]),
        ("At most one attempt left", "Before they are parked", "short",
         [(f"max by (consumer) (idempotency_ledger_entries_near_exhaustion{{{MINE}}})", "{{consumer}}")]),
    ]),
    ("Inbox", [
        ("Stored messages", "due: a worker may take them. later: under a lease, or before their next attempt", "short",
         [(f"max by (consumer, kind) (idempotency_ledger_inbox_messages{{{MINE}}})", "{{consumer}} {{kind}}")]),
        ("The oldest due message waits for", "At backlog_max_age no more are stored", "s",
         [(f"max by (consumer) (idempotency_ledger_inbox_oldest_due_seconds{{{MINE}}})", "{{consumer}}")]),
        ("Stores", "backlog_full: the message stays in its broker", "ops",
         [(rate("idempotency_ledger_inbox_stores_total", "outcome"), "{{outcome}}")]),
        ("Messages stored, by event type", "Without those that the ledger knew", "ops",
         [("topk(20, " + rate("idempotency_ledger_inbox_stored_total", "consumer, event_type", MINE) + ")", "{{consumer}} {{event_type}}")]),
        ("Looks of ClaimNext, and messages handed out", "unreadable: an entry was passed over", "ops",
         [(rate("idempotency_ledger_inbox_handouts_total", "outcome"), "{{outcome}}"),
          ("sum(rate(idempotency_ledger_inbox_handed_out_messages_total[$__rate_interval]))", "messages")]),
        ("Bytes of messages", "At inbox_bytes_max no more are stored", "bytes",
         [("max(idempotency_ledger_inbox_message_bytes)", "stored")]),
        ("Messages that are due to be erased wait for", "", "s",
         [("max(idempotency_ledger_inbox_erase_lag_seconds)", "waits")]),
    ]),
    ("Store", [
        ("Time to count the entries", "99 %; longer than count_every: raise that", "s",
         [("histogram_quantile(0.99, sum by (le) (rate(idempotency_ledger_entries_counting_seconds_bucket[$__rate_interval])))", "counting")]),
        ("99 % of statements take less than", "", "s",
         [(quantile("idempotency_ledger_store_statement_seconds", "statement"), "{{statement}}")]),
        ("Failures", "conflict, locked and stale are tried again", "ops",
         [(rate("idempotency_ledger_store_failures_total", "statement, kind"), "{{statement}} {{kind}}")]),
        ("Commands in a batch", "On the average", "short",
         [("sum(rate(idempotency_ledger_batch_commands_sum[$__rate_interval]))"
           " / sum(rate(idempotency_ledger_batch_commands_count[$__rate_interval]))", "commands")]),
        ("Commands that wait", "By lane, in the order in which they are served", "short",
         [("sum by (lane) (idempotency_ledger_queue_commands)", "{{lane}}")]),
        ("99 % of commands wait less than", "By lane, until a worker takes them", "s",
         [(quantile("idempotency_ledger_queue_wait_seconds", "lane"), "{{lane}}")]),
        ("Calls that wait", "For another verdict", "short", [("sum(idempotency_ledger_waiters)", "waiting")]),
        ("Waits that ended", "By outcome. no_place: no more calls may wait", "ops",
         [(rate("idempotency_ledger_wait_seconds_count", "outcome"), "{{outcome}}")]),
        ("Sessions", "Those that carry claims and settlements, and how many there should be", "short",
         [("sum(idempotency_ledger_store_sessions)", "there"), ("sum(idempotency_ledger_store_sessions_wanted)", "wanted"),
          ("sum(idempotency_ledger_store_backends_left_behind)", "given up, still at work")]),
        ("Sessions opened, and replaced when their time was over", "", "ops",
         [(rate("idempotency_ledger_store_sessions_opened_total", "purpose, outcome"), "{{purpose}} {{outcome}}"),
          (rate("idempotency_ledger_store_sessions_replaced_total", "purpose, outcome"), "{{purpose}} replaced {{outcome}}")]),
        ("Clock and policies", "Behind: nothing is granted. An age beyond 10 s: nothing is granted by them", "s",
         [("max(idempotency_ledger_store_clock_behind_seconds)", "clock behind"),
          ("max(idempotency_ledger_policies_age_seconds)", "age of the policies")]),
        ("Stored policies that cannot be read", "Set by a newer version", "short",
         [("max by (instance) (idempotency_ledger_policies_unreadable)", "{{instance}}")]),
        ("Holds in force", "No new grants for the consumers that they cover", "short",
         [("max(idempotency_ledger_holds_in_force)", "holds")]),
    ]),
    ("Edge", [
        ("Calls", "", "ops", [(rate("grpc_server_started_total", "grpc_method", OURS), "{{grpc_method}}")]),
        ("Calls that failed", "By their status", "ops",
         [(rate("grpc_server_handled_total", "grpc_method, grpc_code", OURS + ', grpc_code!="OK"'), "{{grpc_method}} {{grpc_code}}")]),
        ("99 % of calls take less than", "", "s", [(quantile("grpc_server_handling_seconds", "grpc_method", OURS), "{{grpc_method}}")]),
        ("Refusals", "By the reason of the error", "ops", [(rate("idempotency_ledger_refusals_total", "reason"), "{{reason}}")]),
        ("Callers that were refused", "UNAUTHENTICATED: no valid credential. CONSUMER_NOT_ALLOWED: no right", "ops",
         [(rate("idempotency_ledger_refusals_total", "reason", 'reason=~"UNAUTHENTICATED|CONSUMER_NOT_ALLOWED"'), "{{reason}}")]),
        ("Days until the certificate ends", "No client can connect to the server then; nothing here: no TLS", "d",
         [("min by (instance) (idempotency_ledger_tls_certificate_expiry_timestamp_seconds - time()) / 86400", "{{instance}}")]),
        ("Files of TLS, tokens and rights that fail", "What was read before stays in force", "short",
         [("sum by (instance, setting) (idempotency_ledger_credential_files_failing)", "{{instance}} {{setting}}")]),
        ("Connections, and calls under way", "", "short",
         [("sum(idempotency_ledger_connections)", "connections"),
          (f"sum(grpc_server_started_total{{{OURS}}}) - sum(grpc_server_handled_total{{{OURS}}})", "calls")]),
        ("Bytes in memory", "Requests under way, answers that are not read, and commands that wait or are at work", "bytes",
         [("sum(idempotency_ledger_request_bytes)", "requests"), ("sum(idempotency_ledger_answer_bytes)", "answers"),
          ("sum(idempotency_ledger_queue_bytes)", "commands")]),
        ("Calls ended", "Without progress, or since clients held too much", "ops",
         [("sum by (why) (rate(idempotency_ledger_streams_ended_total[$__rate_interval]))", "{{why}}"),
          ("sum by (resource) (rate(idempotency_ledger_server_full_total[$__rate_interval]))", "server full: {{resource}}")]),
    ]),
    ("Retention and process", [
        ("Entries purged", "", "ops", [("sum(rate(idempotency_ledger_purged_total[$__rate_interval]))", "purged"),
                                       ("sum(rate(idempotency_ledger_purge_failures_total[$__rate_interval]))", "failures")]),
        ("The oldest due entry waits for", "Within ten minutes the purge keeps up", "s",
         [("max(idempotency_ledger_purge_oldest_due_seconds)", "waits")]),
        ("CPU", "Cores", "short", [("rate(process_cpu_seconds_total[$__rate_interval]) and on (instance) idempotency_ledger_build_info", "{{instance}}")]),
        ("Memory", "Resident", "bytes", [("process_resident_memory_bytes and on (instance) idempotency_ledger_build_info", "{{instance}}")]),
    ]),
]


def query(expression, legend):
    return prometheus.Dataquery().datasource(SOURCE).expr(expression).legend_format(legend)


def well(title, expression, unit, bad):
    panel = (stat.Panel().title(title).datasource(SOURCE).unit(unit).height(STAT_HEIGHT).span(WIDTH // 4)
             .color_mode(BigValueColorMode.BACKGROUND).reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False))
             .with_target(query(expression, "")))
    steps = [Threshold(value=None, color="green")]
    if bad == "none is red":
        steps = [Threshold(value=None, color="red"), Threshold(value=1.0, color="green")]
    elif bad:
        steps += [Threshold(value=float(bad[0]), color="yellow"), Threshold(value=float(bad[1]), color="red")]
    return panel.thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps))


def lines(title, tells, unit, queries):
    legend = VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = (timeseries.Panel().title(title).description(tells).datasource(SOURCE).unit(unit).height(HEIGHT)
             .span(WIDTH // 2).min(0).fill_opacity(5).legend(legend))
    for expression, name in queries:
        panel = panel.with_target(query(expression, name))
    return panel


def made():
    board = (dashboard.Dashboard("Idempotency ledger").uid("idempotency-ledger").tags(["idempotency-ledger"])
             .description("Whether the ledger is well, and why not. What each metric tells: docs/metrics.md.")
             .refresh("30s").time("now-3h", "now").editable()
             .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
             .with_variable(dashboard.QueryVariable("consumer").label("Consumer").datasource(SOURCE).multi(True).include_all(True)
                            .all_value(".*").query("label_values(idempotency_ledger_claims_total, consumer)")))
    board = board.with_row(dashboard.Row("Is the ledger well?"))
    for panel in WELL:
        board = board.with_panel(well(*panel))
    for title, panels in ROWS:
        board = board.with_row(dashboard.Row(title))
        for panel in panels:
            board = board.with_panel(lines(*panel))
    return JSONEncoder(sort_keys=True, indent=1).encode(board.build()) + "\n"


if __name__ == "__main__":
    print(made(), end="")
