//! Counts are right, and bounded whatever clients do.

mod by_type;
mod ends;
mod lookups;
mod names;
mod room;

use super::*;
use crate::domain::{Answer, Claim, Claimant, FailureKind, Key, Reason, Reply, Settle, Span, State, Verdict};

fn metrics() -> Metrics {
    let metrics = Metrics::new().unwrap();
    let method = Method { service: "s".into(), name: "M".into(), kind: "unary" };
    drop(metrics.calls([method]).unwrap());
    metrics
}

#[test]
fn every_metric_of_the_catalogue_is_there() {
    let metrics = metrics();
    for family in catalogue::ALL {
        let again = match family.kind {
            family::MetricKind::Counter => family.counters(&metrics.inner.registry).err(),
            family::MetricKind::Gauge => family.gauges(&metrics.inner.registry).err(),
            family::MetricKind::Histogram(_) => family.histograms(&metrics.inner.registry).err(),
        };
        assert!(matches!(again, Some(Error::AlreadyReg)), "{} is not registered", family.name);
    }
    let known = |line: &str| {
        catalogue::ALL.iter().any(|family| line.starts_with(&format!("# HELP {} ", family.name)))
    };
    for line in metrics.text().unwrap().lines().filter(|line| line.starts_with("# HELP")) {
        assert!(known(line), "not in the catalogue: {line}");
    }
}

/// The values of these labels are names, or are listed elsewhere: reasons of errors, statements, files and versions.
const OPEN_LABELS: [&str; 10] = [
    "consumer",
    "event_type",
    "le",
    "reason",
    "statement",
    "grpc_method",
    "grpc_service",
    "grpc_type",
    "grpc_code",
    "version",
];

/// The words of a help: names of values, and others.
fn words(help: &str) -> impl Iterator<Item = &str> {
    help.split(|c: char| !(c.is_alphanumeric() || "_-/.".contains(c))).map(|word| word.trim_end_matches('.'))
}

/// The help names each value of its labels that has a series from the start.
#[test]
fn help_names_each_value_of_its_labels() {
    let text = metrics().text().unwrap();
    let mut missing = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels)) = line.split_once('{') else { continue };
        let family = catalogue::ALL.iter().filter(|family| name.starts_with(family.name));
        let family = family.max_by_key(|family| family.name.len()).unwrap();
        for label in labels.split("\",") {
            let (label, value) = label.split_once("=\"").unwrap();
            let value = value.split('"').next().unwrap();
            // The lanes are explained where they are counted first.
            let explains = |one: &family::Family| {
                (one.name == family.name || label == "lane")
                    && one.labels.contains(&label)
                    && words(one.help).any(|word| word == value)
            };
            if !OPEN_LABELS.contains(&label) && !catalogue::ALL.iter().any(explains) {
                missing.push(format!("{}: {label}={value}", family.name));
            }
        }
    }
    missing.dedup();
    assert!(missing.is_empty(), "{missing:#?}");
}

/// A purpose has its series from its first session on.
#[test]
fn help_names_each_purpose_of_a_session() {
    let purposes = crate::store::Purpose::ALL.map(crate::store::Purpose::name).join(", ");
    assert!(catalogue::OPENED.help.contains(&format!("purpose: {purposes}.")), "{}", catalogue::OPENED.help);
}

fn key(consumer: &str) -> Key {
    Key::new(consumer, "s", "1")
}

fn release() -> Command {
    Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false })
}

fn released() -> Reply {
    Reply::Released { state: State::Received, replayed: false, in_a_row: 1, unpinned: false }
}

fn claim() -> Command {
    let claimant = Claimant { claim_id: uuid::Uuid::nil(), principal: String::new(), owner: String::new() };
    let fingerprint = bytes::Bytes::new();
    let traceparent = String::new();
    Command::Claim(Claim {
        claimant,
        lease: None,
        fingerprint,
        occurred_at: None,
        traceparent,
        handed_out: false,
    })
}

fn backoff() -> Reply {
    let (last_error, retry_after) = (String::new(), Span::ZERO);
    Reply::Verdict(Verdict::Backoff { attempts_left: None, last_error, retry_after })
}

/// Counts the answer of one command of a consumer with or without a policy.
fn counted(
    metrics: &Metrics,
    (consumer, event_type): (&str, &str),
    command: &Command,
    answer: &Answer,
    has_policy: bool,
) {
    let command = metrics.received(&mut Before::default(), &key(consumer), event_type, command);
    let has_policy = &|| has_policy;
    let token_clock = Some(2_000_001);
    metrics.answered(command, &Answered { answer, token_clock, has_policy });
}

fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

fn releases(consumer: &str) -> String {
    format!(
        "idempotency_ledger_settlements_total{{consumer=\"{consumer}\",operation=\"release\",outcome=\"ok\"}}"
    )
}

fn backoffs(consumer: &str, event_type: &str) -> String {
    format!(
        "idempotency_ledger_claims_total{{consumer=\"{consumer}\",event_type=\"{event_type}\",verdict=\"backoff\"}}"
    )
}

#[test]
fn unanswered_command_is_counted() {
    let metrics = metrics();
    drop(metrics.received(&mut Before::default(), &key("c"), "", &release()));
    let series = releases("other").replace("\"ok\"", "\"unanswered\"");
    assert_eq!(value(&metrics.text().unwrap(), &series), Some("1"));
}

/// Which side is at fault: the caller or the ledger.
#[test]
fn refusal_counts_as_the_callers_or_the_ledgers_fault() {
    for (reason, verdict) in [
        (Reason::StoreUnavailable, "unavailable"),
        (Reason::Overloaded, "unavailable"),
        (Reason::OutcomeUnknown, "unavailable"),
        (Reason::Internal, "unavailable"),
        (Reason::QuotaExceeded, "rejected"),
        (Reason::ClaimClosed, "rejected"),
        (Reason::ConsumerDisabled, "rejected"),
    ] {
        let metrics = metrics();
        let refused = Err(Rejection::new(reason, "no"));
        counted(&metrics, ("c", ""), &claim(), &refused, false);
        counted(&metrics, ("c", ""), &release(), &refused, false);
        let text = metrics.text().unwrap();
        for series in [
            backoffs("other", "").replace("\"backoff\"", &format!("\"{verdict}\"")),
            releases("other").replace("\"ok\"", &format!("\"{verdict}\"")),
        ] {
            assert_eq!(value(&text, &series), Some("1"), "{reason}: {series}");
        }
    }
}

/// Equal commands of one call are looked up once, different ones separately.
#[test]
fn commands_of_one_call_are_counted_separately() {
    let metrics = metrics();
    for _ in 0..2 {
        let mut before = Before::default();
        for (consumer, event_type) in [("a", "x"), ("a", "x"), ("a", "y"), ("b", "y"), ("b", ""), ("a", "x")]
        {
            let command = metrics.received(&mut before, &key(consumer), event_type, &claim());
            let answer = Ok(backoff());
            metrics
                .answered(command, &Answered { answer: &answer, token_clock: None, has_policy: &|| false });
        }
    }
    let text = metrics.text().unwrap();
    for (consumer, event_type, is) in
        [("a", "x", "6"), ("a", "y", "2"), ("b", "y", "2"), ("b", "", "2"), ("a", "", "0")]
    {
        assert_eq!(value(&text, &backoffs(consumer, event_type)), Some(is), "{consumer} {event_type}");
    }
}

/// An alert is counted under the reason that revealed it, also where the caller was given another one.
#[test]
fn alert_keeps_its_reason() {
    let metrics = metrics();
    let shown = Rejection::new(Reason::TokenFromFuture, "no").alerting(Some("commits were lost"));
    let answered = Rejection { alert: shown.alert, ..Rejection::new(Reason::OutcomeUnknown, "unknown") };
    metrics.refused(&answered);
    let text = metrics.text().unwrap();
    assert_eq!(value(&text, "idempotency_ledger_alerts_total{reason=\"TOKEN_FROM_FUTURE\"}"), Some("1"));
    assert_eq!(value(&text, "idempotency_ledger_alerts_total{reason=\"OUTCOME_UNKNOWN\"}"), Some("0"));
}

/// A settlement counts how long its claim was held, and its own figures. A repeat counts neither.
#[test]
fn settlement_counts_how_its_claim_went() {
    let fail = |kind| Settle::Fail { kind, error: String::new(), retry_after: None };
    let failed = |replayed| {
        Ok(Reply::Failed { state: State::FailedRetryable, retry_after: None, attempts_left: None, replayed })
    };
    let complete = || Settle::Complete { result: bytes::Bytes::new(), left_out: false };
    let completed = |replayed| {
        Ok(Reply::Completed { replayed, late: false, attempt: 3, result_dropped: false, doubled: false })
    };
    let hand_back = || Settle::Release { delay: Span::ZERO, unpin: false };
    let given_back =
        |replayed| Ok(Reply::Released { state: State::Received, replayed, in_a_row: 4, unpinned: false });
    let held = |operation: &str, part: &str| {
        let labels = format!("consumer=\"c\",event_type=\"t\",operation=\"{operation}\"");
        format!("idempotency_ledger_claim_held_seconds_{part}{{{labels}")
    };
    for (settle, answer, operation, own, is) in [
        (
            complete(),
            completed(false),
            "complete",
            "idempotency_ledger_completion_attempts_sum{consumer=\"c\"}",
            "3",
        ),
        (
            hand_back(),
            given_back(false),
            "release",
            "idempotency_ledger_releases_in_a_row_sum{consumer=\"c\"}",
            "4",
        ),
        (
            fail(FailureKind::Park),
            failed(false),
            "fail",
            "idempotency_ledger_attempts_failed_total{consumer=\"c\",event_type=\"t\",kind=\"park\"}",
            "1",
        ),
        (complete(), completed(true), "", "idempotency_ledger_completion_attempts_sum{consumer=\"c\"}", "0"),
        (hand_back(), given_back(true), "", "idempotency_ledger_releases_in_a_row_sum{consumer=\"c\"}", "0"),
        (
            fail(FailureKind::Terminal),
            failed(true),
            "",
            "idempotency_ledger_attempts_failed_total{consumer=\"c\",event_type=\"t\",kind=\"terminal\"}",
            "0",
        ),
    ] {
        let metrics = metrics();
        counted(&metrics, ("c", "t"), &Command::Settle(1, settle), &answer, false);
        let text = metrics.text().unwrap();
        assert_eq!(value(&text, own), Some(is), "{answer:?}");
        for one in ["complete", "fail", "release"] {
            // A repeat makes no series of its event type.
            let is = |value| (!operation.is_empty()).then_some(value);
            let (sum, count) = if one == operation { ("2", "1") } else { ("0", "0") };
            assert_eq!(value(&text, &format!("{}}}", held(one, "sum"))), is(sum), "{answer:?} {one}");
            assert_eq!(value(&text, &format!("{}}}", held(one, "count"))), is(count), "{answer:?} {one}");
        }
    }
}

#[test]
fn refusals_and_alerts_begin_at_zero() {
    let metrics = metrics();
    let alarming = Rejection::new(Reason::TokenFromFuture, "no").alerting(Some("commits were lost"));
    metrics.refused(&alarming);
    metrics.refused(&Rejection::new(Reason::Overloaded, "no"));
    let text = metrics.text().unwrap();
    for (kind, reason, value) in [
        ("refusals", "TOKEN_FROM_FUTURE", 1),
        ("refusals", "OVERLOADED", 1),
        ("refusals", "LEASE_LOST", 0),
        ("alerts", "TOKEN_FROM_FUTURE", 1),
        ("alerts", "OVERLOADED", 0),
        ("alerts", "CLAIM_CLOSED", 0),
    ] {
        let line = format!("idempotency_ledger_{kind}_total{{reason=\"{reason}\"}} {value}\n");
        assert!(text.contains(&line), "{line} is missing");
    }
}

#[test]
fn call_is_counted_once_however_it_ends() {
    let metrics = Metrics::new().unwrap();
    let method = Method { service: "s".into(), name: "M".into(), kind: "unary" };
    let calls = metrics.calls([method]).unwrap();
    for (path, code) in
        [("/s/M", Some(tonic::Code::Ok)), ("/s/M", None), ("/x/y", Some(tonic::Code::Unimplemented))]
    {
        let mut call = Arc::new(calls.connected()).begin(path);
        if let Some(code) = code {
            call.end(code, Duration::ZERO);
        }
    }
    let text = metrics.text().unwrap();
    for (code, method, value) in
        [("OK", "M", 1), ("Canceled", "M", 1), ("Unimplemented", "unknown", 1), ("OK", "unknown", 0)]
    {
        let service = if method == "M" { "s" } else { "unknown" };
        let line = format!(
            "grpc_server_handled_total{{grpc_code=\"{code}\",grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"unary\"}} {value}\n"
        );
        assert!(text.contains(&line), "{line} is missing in {text}");
    }
}

/// Without a metrics endpoint nothing is counted per call; the traces are the same.
#[test]
fn metrics_without_an_endpoint_count_nothing() {
    let seen =
        |text: &str| text.lines().filter(|line| !line.starts_with('#') && !line.ends_with(" 0")).count();
    let (counting, unseen) = (Metrics::new().unwrap(), Metrics::unseen().unwrap());
    let before = [&counting, &unseen].map(|metrics| seen(&metrics.text().unwrap()));
    for metrics in [&counting, &unseen] {
        let command = metrics.received(&mut Before::default(), &key("c"), "", &claim());
        assert_eq!(command.word(&Ok(backoff())), ("verdict", "backoff"));
        counted(metrics, ("c", "t"), &claim(), &Ok(backoff()), true);
        counted(metrics, ("c", ""), &release(), &Ok(released()), true);
        let method = Method { service: "s".into(), name: "M".into(), kind: "unary" };
        let calls = metrics.calls([method]).unwrap();
        let mut call = Arc::new(calls.connected()).begin("/s/M");
        assert_eq!(call.path(), Some("s/M"));
        call.end(tonic::Code::Ok, Duration::ZERO);
        metrics.work().took(3);
        metrics.work().sent(Statement::Insert, 3, Duration::ZERO);
        metrics.work().waited([(0, Duration::ZERO)].into_iter());
    }
    let after = [&counting, &unseen].map(|metrics| seen(&metrics.text().unwrap()));
    assert!(after[0] > before[0] + 10, "{before:?} {after:?}");
    assert_eq!(after[1], before[1]);
}
