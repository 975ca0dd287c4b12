//! Look-ups are counted by the state that they found, in series that are made with the first of them.

use super::*;
use crate::domain::{Finding, Malformed, Namespace};

fn looked_up(consumer: &str, state: &str) -> String {
    format!("idempotency_ledger_lookups_total{{consumer=\"{consumer}\",state=\"{state}\"}}")
}

fn found() -> Reply {
    Reply::Found(Box::new(Finding { state: Some(State::Completed), attempt: 1, verdict: None }))
}

fn refused() -> Rejection {
    Rejection::new(Reason::Overloaded, "no")
}

/// A refused look-up names no consumer, except one that an operator has named.
#[test]
fn lookup_is_counted_by_the_name_of_its_consumer() {
    let metrics = metrics();
    for (consumer, answer, has_policy) in [
        ("client", Err(refused()), false),
        ("client", Ok(found()), false),
        ("client", Err(refused()), false),
        ("registered", Err(refused()), true),
        ("refused", Err(refused()), false),
    ] {
        counted(&metrics, (consumer, ""), &Command::Lookup, &answer, has_policy);
    }
    // A consumer with series for claims, and none for look-ups, whose look-up is refused for its fields.
    counted(&metrics, ("claims", ""), &claim(), &Ok(backoff()), false);
    counted(&metrics, ("claims and policy", ""), &claim(), &Ok(backoff()), true);
    for (consumer, has_policy) in [("claims", false), ("claims and policy", true), ("client", false)] {
        let malformed = Malformed {
            rejection: Rejection::new(Reason::InvalidField, "no"),
            consumer: consumer.into(),
            of_run: false,
            command: Command::Lookup,
        };
        metrics.malformed(consumer, &malformed, &|| has_policy);
    }
    let text = metrics.text().unwrap();
    for (consumer, state, is) in [
        ("client", "completed", Some("1")),
        ("client", "unavailable", Some("1")),
        ("client", "rejected", Some("1")),
        ("registered", "unavailable", Some("1")),
        ("refused", "unavailable", None),
        ("claims", "rejected", None),
        ("claims and policy", "rejected", Some("1")),
        ("other", "unavailable", Some("2")),
        ("other", "rejected", Some("1")),
    ] {
        assert_eq!(value(&text, &looked_up(consumer, state)), is, "{consumer} {state}");
    }
}

/// Which side is at fault: the caller or the ledger.
#[test]
fn refused_lookup_counts_as_the_callers_or_the_ledgers_fault() {
    for (reason, state) in [
        (Reason::StoreUnavailable, "unavailable"),
        (Reason::Overloaded, "unavailable"),
        (Reason::ConsumerDisabled, "rejected"),
        (Reason::ReplayRunUnknown, "rejected"),
    ] {
        let metrics = metrics();
        counted(&metrics, ("c", ""), &Command::Lookup, &Err(Rejection::new(reason, "no")), true);
        let text = metrics.text().unwrap();
        for word in ["unavailable", "rejected"] {
            let is = if word == state { Some("1") } else { Some("0") };
            assert_eq!(value(&text, &looked_up("c", word)), is, "{reason:?} {word}");
        }
    }
}

/// The others keep their series; those of a consumer go with it, and so does the room that they took.
#[test]
fn series_of_lookups_are_bounded_and_removed() {
    let metrics = metrics();
    // The claims leave room for look-ups of few consumers.
    let consumers: Vec<String> = (0..1_000).map(|number| format!("c{number}{}", "x".repeat(1_000))).collect();
    for consumer in &consumers {
        counted(&metrics, (consumer, ""), &claim(), &Ok(backoff()), true);
    }
    for consumer in &consumers {
        counted(&metrics, (consumer, ""), &Command::Lookup, &Ok(found()), true);
    }
    let text = metrics.text().unwrap();
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    let count = |series: &str| value(&text, series).and_then(|count| count.parse::<usize>().ok());
    let named = text.lines().filter(|line| line.ends_with("state=\"completed\"} 1")).count();
    let has_claims =
        consumers.iter().filter(|consumer| value(&text, &backoffs(consumer, "")).is_some()).count();
    assert!((1..has_claims).contains(&named), "look-ups of {named} and claims of {has_claims} consumers");
    assert_eq!(count(&looked_up("other", "completed")), Some(1_000 - named), "each is counted once");
    // A scrape removes idle series once a minute.
    let (start, minutes) = (Instant::now(), 70);
    for minute in 0..minutes {
        metrics.tidy(start + Duration::from_secs(61) * minute);
        metrics.tidy(start + Duration::from_secs(61) * minute + Duration::from_secs(1));
    }
    assert_eq!(metrics.inner.consumers.minute.load(std::sync::atomic::Ordering::Relaxed), minutes - 1);
    let left = metrics.text().unwrap();
    assert!(!left.contains("consumer=\"c"), "{left}");
    assert!(value(&left, &looked_up("other", "completed")).is_some());
    assert!(metrics.inner.consumers.limit().is_empty(), "the room that they took is free");
}

/// A claim of a replay run has its own words, also where its caller goes away.
#[test]
fn unanswered_replay_is_counted_as_other() {
    let metrics = metrics();
    let key = Key::of(Namespace::new("c", "r"), "s".into(), "1".into());
    let command = metrics.received(&mut Before::default(), &key, "", &claim());
    let suppressed = Ok(Reply::Verdict(Verdict::Suppressed { replay_run: "r".into() }));
    for (answer, word) in [
        (suppressed, "suppressed"),
        (Err(Rejection::new(Reason::ReplayRunUnknown, "no")), "refused"),
        (Ok(backoff()), "other"),
    ] {
        assert_eq!(command.word(&answer), ("verdict", word), "{answer:?}");
    }
    drop(command);
    let series = "idempotency_ledger_replay_claims_total{consumer=\"other\",event_type=\"\",replay=\"true\",verdict=\"other\"}";
    assert_eq!(value(&metrics.text().unwrap(), series), Some("1"));
}
