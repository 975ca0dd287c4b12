//! What ends, and how, counts in the series of its name, and in no other.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::domain::{StoreTime, StoreVerdict};

/// The families whose labels name all ends of one kind.
const FAMILIES: [&str; 6] = [
    "idempotency_ledger_connections_closed_total",
    "idempotency_ledger_inbox_handouts_total",
    "idempotency_ledger_inbox_stores_total",
    "idempotency_ledger_principal_refusals_total",
    "idempotency_ledger_server_full_total",
    "idempotency_ledger_streams_ended_total",
];
const WAITS: &str = "idempotency_ledger_wait_seconds_count";

/// The series of these families, without the product's prefix.
fn series(metrics: &Metrics) -> BTreeMap<String, u64> {
    let text = metrics.text().unwrap();
    let of_family =
        |line: &&str| line.split_once('{').is_some_and(|(name, _)| name == WAITS || FAMILIES.contains(&name));
    let lines = text.lines().filter(of_family).map(|line| line.rsplit_once(' ').unwrap());
    lines
        .map(|(name, value)| (name["idempotency_ledger_".len()..].to_owned(), value.parse().unwrap()))
        .collect()
}

fn store(metrics: &Metrics, verdict: &StoreVerdict) {
    metrics.inbox().stored(Ok(verdict));
}

fn refuse(metrics: &Metrics, reason: Reason) {
    metrics.inbox().stored(Err(&Rejection::new(reason, "no")));
}

fn wait(metrics: &Metrics, end: WaitEnd) {
    metrics.waits().ended(end, Duration::ZERO);
}

/// The series that rises, and what happens.
type Row = (&'static str, fn(&Metrics));

const ROWS: &[Row] = &[
    (r#"connections_closed_total{why="per_address"}"#, |metrics| metrics.closed(Closed::PerAddress)),
    (r#"connections_closed_total{why="opening"}"#, |metrics| metrics.closed(Closed::Opening)),
    (r#"connections_closed_total{why="idle"}"#, |metrics| metrics.closed(Closed::Idle)),
    (r#"connections_closed_total{why="age"}"#, |metrics| metrics.closed(Closed::Age)),
    (r#"connections_closed_total{why="stalled"}"#, |metrics| metrics.closed(Closed::Stalled)),
    (r#"connections_closed_total{why="observe"}"#, |metrics| metrics.closed(Closed::Observe)),
    (r#"inbox_handouts_total{outcome="handed_out"}"#, |metrics| {
        metrics.inbox().handed_out(HandoutEnd::HandedOut, 1, false);
    }),
    (r#"inbox_handouts_total{outcome="repeated"}"#, |metrics| {
        metrics.inbox().handed_out(HandoutEnd::Repeated, 1, false);
    }),
    (r#"inbox_handouts_total{outcome="nothing"}"#, |metrics| {
        metrics.inbox().handed_out(HandoutEnd::Nothing, 0, false);
    }),
    (r#"inbox_handouts_total{outcome="refused"}"#, |metrics| {
        metrics.inbox().handed_out(HandoutEnd::Refused, 0, false);
    }),
    (r#"inbox_stores_total{outcome="stored"}"#, |metrics| {
        store(metrics, &StoreVerdict::Stored { state: State::Received });
    }),
    (r#"inbox_stores_total{outcome="already_stored"}"#, |metrics| {
        store(metrics, &StoreVerdict::AlreadyStored { state: State::Received });
    }),
    (r#"inbox_stores_total{outcome="completed"}"#, |metrics| {
        store(metrics, &StoreVerdict::Completed { completed_at: StoreTime(0) });
    }),
    (r#"inbox_stores_total{outcome="failed"}"#, |metrics| {
        store(metrics, &StoreVerdict::Failed { error: String::new(), failed_at: StoreTime(0) });
    }),
    (r#"inbox_stores_total{outcome="fingerprint_mismatch"}"#, |metrics| {
        let verdict = StoreVerdict::FingerprintMismatch { expected: Bytes::new(), presented: Bytes::new() };
        store(metrics, &verdict);
    }),
    (r#"inbox_stores_total{outcome="outside_window"}"#, |metrics| {
        store(metrics, &StoreVerdict::OutsideWindow { window: Span(0), occurred_at: StoreTime(0) });
    }),
    (r#"inbox_stores_total{outcome="refused"}"#, |metrics| refuse(metrics, Reason::Overloaded)),
    (r#"inbox_stores_total{outcome="inbox_off"}"#, |metrics| refuse(metrics, Reason::InboxOff)),
    (r#"inbox_stores_total{outcome="backlog_full"}"#, |metrics| refuse(metrics, Reason::BacklogFull)),
    (r#"principal_refusals_total{limit="calls"}"#, |metrics| metrics.limited(Limited::Calls)),
    (r#"principal_refusals_total{limit="rate"}"#, |metrics| metrics.limited(Limited::Rate)),
    (r#"principal_refusals_total{limit="bytes"}"#, |metrics| metrics.limited(Limited::Bytes)),
    (r#"server_full_total{resource="request_bytes"}"#, |metrics| metrics.full(Full::RequestBytes)),
    (r#"server_full_total{resource="answer_bytes"}"#, |metrics| metrics.full(Full::AnswerBytes)),
    (r#"streams_ended_total{why="request_stalled"}"#, |metrics| metrics.ended(Ended::RequestStalled)),
    (r#"streams_ended_total{why="answer_stalled"}"#, |metrics| metrics.ended(Ended::AnswerStalled)),
    (r#"streams_ended_total{why="share"}"#, |metrics| metrics.ended(Ended::Share)),
    (r#"streams_ended_total{why="full"}"#, |metrics| metrics.ended(Ended::Full)),
    (r#"wait_seconds_count{outcome="granted"}"#, |metrics| wait(metrics, WaitEnd::Granted)),
    (r#"wait_seconds_count{outcome="answered"}"#, |metrics| wait(metrics, WaitEnd::Answered)),
    (r#"wait_seconds_count{outcome="over"}"#, |metrics| wait(metrics, WaitEnd::Over)),
    (r#"wait_seconds_count{outcome="draining"}"#, |metrics| wait(metrics, WaitEnd::Draining)),
    (r#"wait_seconds_count{outcome="no_place"}"#, |metrics| wait(metrics, WaitEnd::NoPlace)),
    (r#"wait_seconds_count{outcome="refused"}"#, |metrics| wait(metrics, WaitEnd::Refused)),
    (r#"wait_seconds_count{outcome="gone"}"#, |metrics| wait(metrics, WaitEnd::Gone)),
];
/// A look counts also how it ended, so that two series rise.
const PASSED_OVER: &str = r#"inbox_handouts_total{outcome="unreadable"}"#;

#[test]
fn each_end_counts_in_the_series_of_its_name() {
    let metrics = metrics();
    for (name, happens) in ROWS {
        let mut expected = series(&metrics);
        *expected.get_mut(*name).unwrap_or_else(|| panic!("there must be {name}")) += 1;
        happens(&metrics);
        assert_eq!(series(&metrics), expected, "{name} alone rises");
    }
    let mut rows: Vec<&str> = ROWS.iter().map(|(name, _)| *name).chain([PASSED_OVER]).collect();
    rows.sort_unstable();
    let there: Vec<String> = series(&metrics).into_keys().collect();
    assert_eq!(there, rows, "each series has a row");
    metrics.inbox().handed_out(HandoutEnd::HandedOut, 1, true);
    assert_eq!(series(&metrics)[PASSED_OVER], 1);
}
