//! Every metric: its name, its labels, and its meaning. `docs/metrics.md` is printed from here.
//!
//! Long because it is one table of all metrics.

use super::family::{Family, MetricKind, counter, gauge};

/// Seconds: from a read of memory to the longest deadline.
const SECONDS: MetricKind = MetricKind::Histogram(&[
    0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
]);
/// Items: from one to the largest batch.
const ITEMS: MetricKind =
    MetricKind::Histogram(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_000.0]);

/// Seconds for which claims are held: from a write to the longest lease.
const HELD_SECONDS: MetricKind =
    MetricKind::Histogram(&[0.01, 0.05, 0.25, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3_600.0]);
/// How many times something happens to one message.
const OCCURRENCES: MetricKind = MetricKind::Histogram(&[1.0, 2.0, 3.0, 5.0, 10.0]);

pub(super) const CLAIMS: Family = counter(
    "idempotency_ledger_claims_total",
    &["consumer", "event_type", "verdict"],
    "Claims, by their verdict: acquired, in_progress, completed, parked, backoff, failed, fingerprint_mismatch, \
     outside_window. rejected: an error, by its reason in idempotency_ledger_refusals_total. unavailable: an \
     error that says nothing against the call: the ledger could not. unanswered: the deadline passed or the client went \
     away before the answer; the claim may have been carried out. Batches that found no room in the queue are refused \
     before their consumers are known, and count in idempotency_ledger_refusals_total alone.",
);
pub(super) const LOOKUPS: Family = counter(
    "idempotency_ledger_lookups_total",
    &["consumer", "state"],
    "Look-ups, by the state that they found (received, in_progress, completed, failed_retryable, failed_terminal, parked), \
     in replay runs too; a consumer has the series from its first look-up on. \
     absent: the key has no entry, or the run suppresses effects. rejected, unavailable and unanswered, as for claims.",
);
pub(super) const SETTLEMENTS: Family = counter(
    "idempotency_ledger_settlements_total",
    &["consumer", "operation", "outcome"],
    "Settlements. operation: complete, fail, release, renew. outcome: ok; replayed, where the same had been done \
     before; late, a Complete or Renew after its lease, or a Complete of a claim that had been closed otherwise; \
     superseded, where the message had gone to another claim; rejected, unavailable and unanswered, as for claims.",
);
pub(super) const FAILED: Family = counter(
    "idempotency_ledger_attempts_failed_total",
    &["consumer", "event_type", "kind"],
    "Attempts that their holders failed, by whether they want another attempt. kind: retryable, terminal, park.",
);
pub(super) const HELD: Family = Family {
    name: "idempotency_ledger_claim_held_seconds",
    kind: HELD_SECONDS,
    labels: &["consumer", "event_type", "operation"],
    help: "How long claims were held, from their grant to the settlement that ended them: complete, fail or release. A \
           Complete after a Release counts again. Where an operator raised the token offset, claims of before seem \
           older by that. event_type: that of the settlement; one without its own series counts under the empty one.",
};
pub(super) const ATTEMPTS: Family = Family {
    name: "idempotency_ledger_completion_attempts",
    kind: OCCURRENCES,
    labels: &["consumer"],
    help: "How many attempts messages took until they were completed.",
};
pub(super) const RELEASES: Family = Family {
    name: "idempotency_ledger_releases_in_a_row",
    kind: OCCURRENCES,
    labels: &["consumer"],
    help: "At each Release: how many claims of the message in a row were given back by now, at most 11. A release uses \
           up no attempt, so that nothing else ends a message that is always given back.",
};
pub(super) const RECLAIMS: Family = counter(
    "idempotency_ledger_reclaims_total",
    &["consumer"],
    "Claims that were granted in place of one that had expired: a holder was lost, or its lease was too short.",
);
pub(super) const DOUBLED: Family = counter(
    "idempotency_ledger_doubled_effects_total",
    &["consumer"],
    "Completes that reported an effect as done which another claim had reported before: the effect may have happened twice. \
     Counts the second report of a message and each further one, in whichever order they arrive; never a repeat. Also counts \
     rows of a spool (ReconcileEntries) whose message something else had completed.",
);
pub(super) const PARKED: Family = counter(
    "idempotency_ledger_parked_total",
    &["consumer", "cause"],
    "Messages that claims and settlements have parked, in replay runs too. cause: attempts_exhausted, lease_expired, \
     effect_unknown, consumer (a Fail of kind PARK). What an operator parks is in the audit.",
);
pub(super) const REPLAYS: Family = counter(
    "idempotency_ledger_replay_claims_total",
    &["consumer", "event_type", "replay", "verdict"],
    "Claims in replay runs that were answered; replay is always true; an event type has the series from its first such \
     claim on. verdict: acquired, completed, suppressed (a message \
     whose effect must not happen again was acknowledged unprocessed), refused (its run is unknown, closed or over, or the \
     policy forbids replays), other. Claims that are not of a run are counted by idempotency_ledger_claims_total.",
);
pub(super) const REFUSALS: Family = counter(
    "idempotency_ledger_refusals_total",
    &["reason"],
    "Claims, settlements and look-ups that the ledger refused, alone or in a batch, by the reason of the error; and of all calls, \
     operators' included, those whose caller was refused: UNAUTHENTICATED, CONSUMER_NOT_ALLOWED; those beyond a limit of their \
     principal, connection or server: QUOTA_EXCEEDED, OVERLOADED; those whose headers are too large: TOO_LARGE; and those over \
     HTTP that stream or are compressed: UNIMPLEMENTED. Each item of a BatchClaim that found no room in the queue counts. Calls \
     whose body is refused as a whole (too large, too late, unreadable) are in grpc_server_handled_total alone.",
);
pub(super) const CORRECTED: Family = counter(
    "idempotency_ledger_corrected_fields_total",
    &["field"],
    "Fields beyond their bounds that refuse nothing: result, checkpoint, left out; event_type, cut; kind, taken as \
     RETRYABLE; retry_after, delay, lease, clamped. The log says whose.",
);
pub(super) const ALERTS: Family = counter(
    "idempotency_ledger_alerts_total",
    &["reason"],
    "Answers that a person should look into: contradictory holders, tokens from the future, lost inserts. The log \
     says which entry. Effects that two claims report are in idempotency_ledger_doubled_effects_total.",
);
pub(super) const QUEUE: Family = gauge(
    "idempotency_ledger_queue_commands",
    &["lane"],
    "Commands that wait for a worker. The lanes, in the order in which they are served: close, renew, release, claim, lookup.",
);
pub(super) const QUEUE_BYTES: Family = gauge(
    "idempotency_ledger_queue_bytes",
    &[],
    "Bytes of the commands that wait or are at work; queue_bytes_max is their bound.",
);
pub(super) const INBOX_STORES: Family = counter(
    "idempotency_ledger_inbox_stores_total",
    &["outcome"],
    "Messages that clients asked to store. stored, already_stored, completed: acknowledged to the broker. failed, \
     fingerprint_mismatch, outside_window: dead letters. inbox_off, backlog_full, and refused for any other error: the message \
     stays in its broker.",
);
pub(super) const INBOX_STORED: Family = counter(
    "idempotency_ledger_inbox_stored_total",
    &["consumer", "event_type"],
    "Messages that the ledger began to keep. A message that is stored again counts in idempotency_ledger_inbox_stores_total \
     alone. An event type has the series from its first message on; one without its own series counts under the empty one.",
);
pub(super) const INBOX_HANDOUTS: Family = counter(
    "idempotency_ledger_inbox_handouts_total",
    &["outcome"],
    "Looks of ClaimNext calls. handed_out: at least one message. repeated: the handout of an earlier call with the same \
     claim_id. nothing: no message was due. refused: by an error. unreadable: at least one entry was passed over, since it cannot \
     be read or has lost its message; such a look counts under its own outcome too.",
);
pub(super) const INBOX_HANDED: Family = counter(
    "idempotency_ledger_inbox_handed_out_messages_total",
    &[],
    "Messages that were handed out, repeats included.",
);
pub(super) const INBOX_MESSAGES: Family = gauge(
    "idempotency_ledger_inbox_messages",
    &["consumer", "kind"],
    "Stored messages that are handed out now or later, as last counted, for consumers whose policy has `inbox`. kind: due; later (held \
     under a lease, or before their next attempt).",
);
pub(super) const INBOX_OLDEST_DUE: Family = gauge(
    "idempotency_ledger_inbox_oldest_due_seconds",
    &["consumer"],
    "For how long the oldest stored message of the consumer that can be read has been due, as last counted; 0 if none is due. At \
     `backlog_max_age` no more are stored.",
);
pub(super) const INBOX_MESSAGE_BYTES: Family = gauge(
    "idempotency_ledger_inbox_message_bytes",
    &[],
    "Bytes of all stored messages, as a server read them that stores: every 10 s, or less often where reading takes long. At \
     inbox_bytes_max no more are stored.",
);
pub(super) const INBOX_ERASE_LAG: Family = gauge(
    "idempotency_ledger_inbox_erase_lag_seconds",
    &[],
    "For how long the oldest message that this server erased last had been due to be erased; 0 where none was due.",
);
pub(super) const WAITERS: Family =
    gauge("idempotency_ledger_waiters", &[], "Calls that wait on this server for another verdict.");
pub(super) const WAIT_SECONDS: Family = Family {
    name: "idempotency_ledger_wait_seconds",
    kind: SECONDS,
    labels: &["outcome"],
    help: "How long calls waited for another verdict, by how it ended. granted: a Claim was granted. answered: by a verdict \
           that no call waits for. over: the wait was used up. draining: the server shuts down. refused: by an error. \
           gone: the client went away. no_place: no more calls may wait, so that the call was answered immediately, which \
           counts as 0 s.",
};
pub(super) const QUEUE_WAIT: Family = Family {
    name: "idempotency_ledger_queue_wait_seconds",
    kind: SECONDS,
    labels: &["lane"],
    help: "How long commands waited for a worker; those of one batch count once.",
};
pub(super) const BATCHES: Family = Family {
    name: "idempotency_ledger_batch_commands",
    kind: ITEMS,
    labels: &[],
    help: "Commands that a worker carried out in one round at the store; one that has to come again counts again.",
};
pub(super) const STATEMENTS: Family = Family {
    name: "idempotency_ledger_store_statement_seconds",
    kind: SECONDS,
    labels: &["statement"],
    help: "How long the store took for a statement of claims and settlements, its failures included.",
};
pub(super) const STATEMENT_ROWS: Family = Family {
    name: "idempotency_ledger_store_statement_rows",
    kind: ITEMS,
    labels: &["statement"],
    help: "With how many rows a statement of claims and settlements was sent.",
};
pub(super) const FAILURES: Family = counter(
    "idempotency_ledger_store_failures_total",
    &["statement", "kind"],
    "Statements of claims and settlements that failed. kind: unavailable, timed_out, schema, outdated, permanent, \
     clock_behind; unknown, where it is not known whether it was applied; conflict, locked and stale, which are tried again.",
);
pub(super) const STARTED: Family =
    counter("grpc_server_started_total", &["grpc_type", "grpc_service", "grpc_method"], "Calls that began.");
pub(super) const HANDLED: Family = counter(
    "grpc_server_handled_total",
    &["grpc_type", "grpc_service", "grpc_method", "grpc_code"],
    "Calls that ended, by their status. Canceled: the client went away before the answer. A stream of the server has \
     ended with its head here.",
);
pub(super) const HANDLING: Family = Family {
    name: "grpc_server_handling_seconds",
    kind: SECONDS,
    labels: &["grpc_type", "grpc_service", "grpc_method"],
    help: "How long calls took, from their headers to the head of their answer, without the time that they waited for another \
           verdict.",
};
pub(super) const CONNECTIONS: Family =
    gauge("idempotency_ledger_connections", &[], "Connections of clients that are open.");
pub(super) const CERTIFICATE_ENDS: Family = gauge(
    "idempotency_ledger_tls_certificate_expiry_timestamp_seconds",
    &[],
    "When the server's own certificate ends, the one that new connections are shown, or one between it and its authority's, in Unix time. Absent without TLS.",
);
pub(super) const LIST_ENDS: Family = gauge(
    "idempotency_ledger_tls_revocation_list_expiry_timestamp_seconds",
    &[],
    "When the first of the clients' revocation lists in force is due to be followed by its next one, in Unix time. Absent where none says.",
);
pub(super) const TOKEN_ENDS: Family = gauge(
    "idempotency_ledger_token_expiry_timestamp_seconds",
    &[],
    "When the first token of the file in force ends, in Unix time: it may have ended. Absent where no token has an end.",
);
pub(super) const FILES_FAILING: Family = gauge(
    "idempotency_ledger_credential_files_failing",
    &["setting"],
    "1 while the file of this setting (of TLS, tokens, rights, keys of issuers) cannot be read or has something wrong, so that what was \
     read before stays in force; otherwise 0. The log says what is wrong.",
);
pub(super) const FILES_READ_AGAIN: Family = counter(
    "idempotency_ledger_credential_files_reloads_total",
    &["setting"],
    "How often the file of this setting had changed, and what it says now was put in force.",
);
pub(super) const CLOSED: Family = counter(
    "idempotency_ledger_connections_closed_total",
    &["why"],
    "Connections that the server ended by itself. why: per_address, beyond connections_per_address_max; opening, no \
     whole handshake and preface within 5 s; idle, no call for connection_idle_max; age, open for connection_age_max; \
     stalled, bytes waited and the client took none of them for stall_max, or more than 16 of its streams made no progress within a \
     minute; observe, no whole request at observe_listen while all its places were taken.",
);
pub(super) const STREAMS_ENDED: Family = counter(
    "idempotency_ledger_streams_ended_total",
    &["why"],
    "Calls that the server ended by itself. why: request_stalled, a message of the request did not arrive within stall_max and at \
     1 KiB a second after that (the call is answered DEADLINE_EXCEEDED); answer_stalled, the answer was not read like that \
     (the stream is reset, as for the next two); share, the answers that its principal or its connection had not read were more than \
     its share; full, all clients together held too much, and its principal most of it. The log names the principal.",
);
pub(super) const SERVER_FULL: Family = counter(
    "idempotency_ledger_server_full_total",
    &["resource"],
    "How often all clients together held too much, so that calls other than settlements were refused as OVERLOADED. resource: \
     request_bytes, the requests under way; answer_bytes, the answers that are not read. The bounds are server_bytes_max and a half of it.",
);
pub(super) const LIMITED: Family = counter(
    "idempotency_ledger_principal_refusals_total",
    &["limit"],
    "Calls and items of batches that were refused by a limit of their principal. limit: calls, principal_calls_max; \
     rate, principal_calls_per_second; bytes, principal_bytes_max. Each refused look of a waiting call counts. The log says whose.",
);
pub(super) const READY: Family = gauge(
    "idempotency_ledger_store_ready",
    &[],
    "1 while the store answers and the server can serve, otherwise 0.",
);
pub(super) const OPENED: Family = counter(
    "idempotency_ledger_store_sessions_opened_total",
    &["purpose", "outcome"],
    "Sessions that were to be opened at the store. purpose: claims, heartbeat, purge, open_claims, waits, inbox, reads, \
     changes. outcome: ok, failed. A session is opened again where the one before broke.",
);
pub(super) const REPLACED: Family = counter(
    "idempotency_ledger_store_sessions_replaced_total",
    &["purpose", "outcome"],
    "Sessions that were to be replaced, since max_connection_lifetime was over. purpose: as for sessions opened, where \
     these do not count again. outcome: ok; failed, where no new one could be opened: the old one goes on, and the next \
     try comes soon.",
);
pub(super) const SESSIONS: Family =
    gauge("idempotency_ledger_store_sessions", &[], "Sessions that carry claims and settlements.");
pub(super) const SESSIONS_WANTED: Family = gauge(
    "idempotency_ledger_store_sessions_wanted",
    &[],
    "How many of them there should be: the setting sessions; 1 over SQLite.",
);
pub(super) const LEFT_BEHIND: Family = gauge(
    "idempotency_ledger_store_backends_left_behind",
    &[],
    "Backends of Postgres that were still at work for sessions that were given up, when a session was opened last.",
);
pub(super) const LOSSES: Family = counter(
    "idempotency_ledger_store_losses_total",
    &[],
    "How often the store had lost commits that it had acknowledged: found when a session was opened to a server that was \
     started since, by this server's last writes; on SQLite by the counter next to the file. What was lost may be granted again.",
);
pub(super) const CLOCK_BEHIND: Family = gauge(
    "idempotency_ledger_store_clock_behind_seconds",
    &[],
    "How far the store's clock is behind what it has shown before, or behind the date of the release, rounded up: nothing is \
     granted or purged then.",
);
pub(super) const CLOCK_AHEAD: Family = gauge(
    "idempotency_ledger_store_clock_ahead_seconds",
    &[],
    "How far the store's clock has jumped ahead of what it has shown before, by more than a year: nothing is granted or \
     purged then.",
);
pub(super) const POLICIES_AGE: Family = gauge(
    "idempotency_ledger_policies_age_seconds",
    &[],
    "How long ago the policies were read from the store. Beyond ten seconds nothing is granted by them.",
);
pub(super) const POLICIES_UNREADABLE: Family = gauge(
    "idempotency_ledger_policies_unreadable",
    &[],
    "Stored policies that this version cannot read: it grants, parks and purges nothing for their consumers.",
);
pub(super) const HOLDS: Family = gauge(
    "idempotency_ledger_holds_in_force",
    &[],
    "Holds of consumers, of all or of those with a prefix, as this server knows them: it grants nothing new to them.",
);
pub(super) const PURGED: Family = counter(
    "idempotency_ledger_purged_total",
    &[],
    "Entries that this server has purged after their retention.",
);
pub(super) const PURGE_FAILURES: Family = counter(
    "idempotency_ledger_purge_failures_total",
    &[],
    "Rounds of the purge that failed, and batches of which it left something for a later one.",
);
pub(super) const PURGE_OLDEST: Family = gauge(
    "idempotency_ledger_purge_oldest_due_seconds",
    &[],
    "For how long the oldest entry that this purge looked at last had been due; 0 where no consumer was due, and while \
     it looks again at what it left before.",
);
pub(super) const ENTRIES: Family = gauge(
    "idempotency_ledger_entries",
    &["consumer", "state"],
    "Entries by their state, as they were counted last, up to 1,000,000 in each state of a consumer; those in completed may \
     be an estimate. Every server counts the \
     first 10,000 consumers of the ledger: take the max over servers, not the sum. Shown are those that \
     operators have named, by a policy or exactly in the file of rights, and the first 200 of the others by name; the rest is other.",
);
pub(super) const ENTRIES_OLDEST: Family = gauge(
    "idempotency_ledger_entries_oldest_seconds",
    &["consumer", "kind"],
    "The age of the oldest entry. kind: claimable (received or failed_retryable, due or not yet), in_progress and \
     parked, from their creation on; expired, from the end of lease and grace on. 0 where there is none.",
);
pub(super) const ENTRIES_EXPIRED: Family = gauge(
    "idempotency_ledger_entries_expired",
    &["consumer"],
    "Entries in progress whose lease and grace are over, and which no client has claimed again.",
);
pub(super) const ENTRIES_NEAR_EXHAUSTION: Family = gauge(
    "idempotency_ledger_entries_near_exhaustion",
    &["consumer"],
    "Entries that have at most one attempt left before they are parked.",
);
pub(super) const ENTRIES_COUNTING: Family = Family {
    name: "idempotency_ledger_entries_counting_seconds",
    kind: SECONDS,
    labels: &[],
    help: "How long it took to count the entries, waits behind operators' reads included.",
};
pub(super) const ENTRIES_COUNTED_AT: Family = gauge(
    "idempotency_ledger_entries_counted_timestamp_seconds",
    &[],
    "When the entries were counted last, by the store's clock; 0: not yet, or not for so long that nothing is shown.",
);
pub(super) const STORED_NAMES: Family = gauge(
    "idempotency_ledger_stored_names",
    &["kind"],
    "How many names the store keeps as numbers, at the last count. kind: consumer (also in replay runs), source, principal. \
     None is ever forgotten: a source for each object grows without end.",
);
pub(super) const REQUEST_BYTES: Family = gauge(
    "idempotency_ledger_request_bytes",
    &[],
    "Bytes of the requests under way, as far as they have arrived, 5 KiB and the headers of each call included; \
     server_bytes_max is their bound, five eighths of it for all but settlements.",
);
pub(super) const ANSWER_BYTES: Family = gauge(
    "idempotency_ledger_answer_bytes",
    &[],
    "Bytes of answers that clients have not read; half of server_bytes_max is their bound.",
);
pub(super) const LOG_DROPPED: Family = counter(
    "idempotency_ledger_log_lines_dropped_total",
    &[],
    "Lines of the log that were dropped since standard error did not take them as fast as the server logs (nothing reads \
     it, or its disk is full): no call waits for a log.",
);
pub(super) const BUILD: Family =
    gauge("idempotency_ledger_build_info", &["version"], "Always 1: which version runs.");

/// Of the process, by the library, and on Linux alone.
const PROCESS: [Family; 7] = [
    counter("process_cpu_seconds_total", &[], "CPU time that the process has taken."),
    gauge("process_open_fds", &[], "Open file descriptors."),
    gauge("process_max_fds", &[], "How many file descriptors may be open."),
    gauge("process_virtual_memory_bytes", &[], "Virtual memory."),
    gauge("process_resident_memory_bytes", &[], "Resident memory."),
    gauge("process_start_time_seconds", &[], "When the process started, in Unix time."),
    gauge("process_threads", &[], "Threads."),
];

/// All metrics, in the order of the page.
pub(super) const ALL: &[Family] = &[
    CLAIMS,
    LOOKUPS,
    FAILED,
    SETTLEMENTS,
    HELD,
    ATTEMPTS,
    RELEASES,
    RECLAIMS,
    DOUBLED,
    PARKED,
    REPLAYS,
    REFUSALS,
    CORRECTED,
    ALERTS,
    QUEUE,
    QUEUE_BYTES,
    INBOX_STORES,
    INBOX_STORED,
    INBOX_HANDOUTS,
    INBOX_HANDED,
    INBOX_MESSAGES,
    INBOX_OLDEST_DUE,
    INBOX_MESSAGE_BYTES,
    INBOX_ERASE_LAG,
    WAITERS,
    WAIT_SECONDS,
    QUEUE_WAIT,
    BATCHES,
    STATEMENTS,
    STATEMENT_ROWS,
    FAILURES,
    READY,
    OPENED,
    REPLACED,
    SESSIONS,
    SESSIONS_WANTED,
    LEFT_BEHIND,
    LOSSES,
    CLOCK_BEHIND,
    CLOCK_AHEAD,
    POLICIES_AGE,
    POLICIES_UNREADABLE,
    HOLDS,
    PURGED,
    PURGE_FAILURES,
    PURGE_OLDEST,
    ENTRIES,
    ENTRIES_OLDEST,
    ENTRIES_EXPIRED,
    ENTRIES_NEAR_EXHAUSTION,
    ENTRIES_COUNTED_AT,
    STORED_NAMES,
    ENTRIES_COUNTING,
    STARTED,
    HANDLED,
    HANDLING,
    CONNECTIONS,
    CLOSED,
    STREAMS_ENDED,
    SERVER_FULL,
    LIMITED,
    REQUEST_BYTES,
    ANSWER_BYTES,
    CERTIFICATE_ENDS,
    LIST_ENDS,
    TOKEN_ENDS,
    FILES_FAILING,
    FILES_READ_AGAIN,
    LOG_DROPPED,
    BUILD,
    PROCESS[0],
    PROCESS[1],
    PROCESS[2],
    PROCESS[3],
    PROCESS[4],
    PROCESS[5],
    PROCESS[6],
];

/// The catalogue as a table in Markdown.
#[must_use]
pub fn table() -> String {
    let mut rows = vec!["| metric | kind | labels | what it tells |\n| --- | --- | --- | --- |\n".to_owned()];
    for Family { name, kind, labels, help } in ALL {
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        rows.push(format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    rows.concat()
}
