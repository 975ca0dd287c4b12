//! Series by event type that are made with their first value; doubled effects; causes of parking.

use super::*;
use crate::domain::{Namespace, ParkCause, StoreTime};

pub(super) fn in_run(metrics: &Metrics, consumer: &str, event_type: &str, has_policy: bool) {
    let key = Key::of(Namespace::new(consumer, "r"), "s".into(), "1".into());
    let command = metrics.received(&mut Before::default(), &key, event_type, &claim());
    let answer = Ok(Reply::Verdict(Verdict::Suppressed { replay_run: "r".into() }));
    metrics.answered(command, &Answered { answer: &answer, token_clock: None, has_policy: &|| has_policy });
}

fn suppressed(consumer: &str, event_type: &str) -> String {
    format!(
        "idempotency_ledger_replay_claims_total{{consumer=\"{consumer}\",event_type=\"{event_type}\",replay=\"true\",verdict=\"suppressed\"}}"
    )
}

fn held(consumer: &str, event_type: &str) -> String {
    format!(
        "idempotency_ledger_claim_held_seconds_count{{consumer=\"{consumer}\",event_type=\"{event_type}\",operation=\"release\"}}"
    )
}

fn stored(consumer: &str, event_type: &str) -> String {
    format!("idempotency_ledger_inbox_stored_total{{consumer=\"{consumer}\",event_type=\"{event_type}\"}}")
}

#[test]
fn held_claims_replays_and_messages_are_counted_by_event_type() {
    let metrics = metrics();
    for number in 0..25 {
        let event_type = format!("t{number}");
        counted(&metrics, ("c", &event_type), &release(), &Ok(released()), false);
        in_run(&metrics, "c", &event_type, false);
        metrics.message_stored("c", &event_type, false);
    }
    metrics.message_stored("c", "", false);
    counted(&metrics, ("c", ""), &release(), &Ok(released()), false);
    in_run(&metrics, "c", "", false);
    let text = metrics.text().unwrap();
    for series in [held, suppressed, stored] {
        for (event_type, is) in
            [("t0", Some("1")), ("t19", Some("1")), ("t20", None), ("other", Some("5")), ("", Some("1"))]
        {
            assert_eq!(value(&text, &series("c", event_type)), is, "{}", series("c", event_type));
        }
    }
    for _ in 0..70 {
        metrics.inner.consumers.minute_passed();
    }
    let left = metrics.text().unwrap();
    assert!(!left.contains("consumer=\"c\""), "all of them are forgotten: {left}");
    assert!(metrics.inner.consumers.limit().is_empty(), "and so is the room that they took");
}

/// An event type that is counted in each minute, by claims or by messages alone, keeps its series.
#[test]
fn event_type_that_is_counted_keeps_its_series() {
    let metrics = metrics();
    for _ in 0..130 {
        counted(&metrics, ("c", "claimed"), &claim(), &Ok(backoff()), false);
        metrics.message_stored("c", "stored", false);
        in_run(&metrics, "c", "replayed", false);
        metrics.inner.consumers.minute_passed();
    }
    let text = metrics.text().unwrap();
    for series in [backoffs("c", "claimed"), stored("c", "stored"), suppressed("c", "replayed")] {
        assert_eq!(value(&text, &series), Some("130"), "{series}");
    }
}

/// The room of an event type that is forgotten is there again: all of it, and no more.
#[test]
fn forgotten_event_type_returns_its_room_exactly() {
    let metrics = metrics();
    let minute = || {
        counted(&metrics, ("c", "stays"), &claim(), &Ok(backoff()), false);
        metrics.inner.consumers.minute_passed();
        format!("{:?}", metrics.inner.consumers.limit())
    };
    let before = minute();
    for what in ["message", "release", "claim of a run"] {
        match what {
            "message" => metrics.message_stored("c", "goes", false),
            "release" => counted(&metrics, ("c", "goes"), &release(), &Ok(released()), false),
            _ => in_run(&metrics, "c", "goes", false),
        }
        assert_ne!(minute(), before, "{what} takes room");
        for _ in 0..70 {
            minute();
        }
        assert_eq!(minute(), before, "{what}");
    }
}

/// The worst case: clients make every series that they can.
#[test]
fn lazily_made_series_are_bounded() {
    let metrics = metrics();
    for number in 0..10_000 {
        let (consumer, event_type) =
            (format!("{}{}", "\"".repeat(120), number / 20), format!("t{}", number % 20));
        counted(&metrics, (&consumer, &event_type), &claim(), &Ok(backoff()), false);
        counted(&metrics, (&consumer, &event_type), &release(), &Ok(released()), false);
        in_run(&metrics, &consumer, &event_type, false);
        metrics.message_stored(&consumer, &event_type, false);
    }
    let text = metrics.text().unwrap();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(series < 20_000 && text.len() < 2_000_000, "{series} series, {} bytes", text.len());
    let all = |start: &str, label: &str| {
        let of = text.lines().filter(|line| line.starts_with(start) && line.contains(label));
        of.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum::<f64>()
    };
    assert!(
        (all("idempotency_ledger_replay_claims_total{", "suppressed") - 10_000.0).abs() < 0.5,
        "each is counted once"
    );
    assert!(
        (all("idempotency_ledger_inbox_stored_total{", "") - 10_000.0).abs() < 0.5,
        "each is counted once"
    );
    assert!(
        (all("idempotency_ledger_claim_held_seconds_count{", "release") - 10_000.0).abs() < 0.5,
        "each is counted once"
    );
}

#[test]
fn each_report_of_an_effect_after_the_first_one_is_counted() {
    let complete = || Command::Settle(1, Settle::Complete { result: bytes::Bytes::new(), left_out: false });
    let completed = |doubled| {
        Ok(Reply::Completed { replayed: false, late: false, attempt: 1, result_dropped: false, doubled })
    };
    let lost = |doubled| Err(Rejection { doubled, ..Rejection::new(Reason::LeaseLost, "no") });
    let metrics = metrics();
    for (answer, is) in
        [(completed(false), "0"), (lost(false), "0"), (completed(true), "1"), (lost(true), "2")]
    {
        counted(&metrics, ("c", ""), &complete(), &answer, false);
        let text = metrics.text().unwrap();
        let series = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";
        assert_eq!(value(&text, series), Some(is), "{answer:?}");
        // It has its own alert.
        assert_eq!(value(&text, "idempotency_ledger_alerts_total{reason=\"LEASE_LOST\"}"), Some("0"));
    }
}

#[test]
fn parking_is_counted_once_by_its_cause() {
    let metrics = metrics();
    let parked = |cause, newly| {
        let (error, parked_at) = (String::new(), StoreTime(0));
        Ok(Reply::Verdict(Verdict::Parked { cause, error, parked_at, newly }))
    };
    let failed = |cause, replayed| {
        let (retry_after, attempts_left) = (None, None);
        Ok(Reply::Failed { state: State::Parked(cause), retry_after, attempts_left, replayed })
    };
    let fail = || {
        let (kind, error) = (FailureKind::Park, String::new());
        Command::Settle(1, Settle::Fail { kind, error, retry_after: None })
    };
    for (command, answer) in [
        (claim(), parked(ParkCause::LeaseExpired, true)),
        (claim(), parked(ParkCause::LeaseExpired, false)),
        (claim(), parked(ParkCause::EffectUnknown, true)),
        (claim(), parked(ParkCause::Operator, false)),
        (fail(), failed(ParkCause::AttemptsExhausted, false)),
        (fail(), failed(ParkCause::AttemptsExhausted, true)),
        (fail(), failed(ParkCause::Consumer, false)),
        (fail(), failed(ParkCause::Consumer, false)),
    ] {
        counted(&metrics, ("c", ""), &command, &answer, false);
    }
    let text = metrics.text().unwrap();
    for (cause, is) in
        [("attempts_exhausted", "1"), ("lease_expired", "1"), ("effect_unknown", "1"), ("consumer", "2")]
    {
        let series = format!("idempotency_ledger_parked_total{{cause=\"{cause}\",consumer=\"c\"}}");
        assert_eq!(value(&text, &series), Some(is), "{cause}");
    }
}
