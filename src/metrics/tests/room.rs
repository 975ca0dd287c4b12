//! The room that names of clients take: each series shown is charged, and the name counted least recently
//! makes room for the next.

use super::by_type::in_run;
use super::*;
use crate::domain::Finding;

/// However a consumer is counted, its charge is the number of its series.
#[test]
fn each_series_of_a_consumer_is_charged() {
    let metrics = metrics();
    let found = Reply::Found(Box::new(Finding { state: None, attempt: 0, verdict: None }));
    let inbox = Some(CountedInbox { due: 1, later: 1, oldest: 1 });
    let entries = BTreeMap::from([("c".to_owned(), Counted { inbox, ..Counted::default() })]);
    // More event types than a consumer may have, so that the others among them have series too.
    for number in 0..25 {
        let event_type = format!("t{number}");
        counted(&metrics, ("c", &event_type), &claim(), &Ok(backoff()), false);
    }
    let is = |what: &str| {
        let text = metrics.text().unwrap();
        let shown = text.lines().filter(|line| line.contains("consumer=\"c\"")).count();
        assert_eq!(metrics.inner.consumers.limit().series(), shown, "{what}: {text}");
        shown
    };
    let mut before = is("claims");
    for what in ["releases", "claims of a run", "messages", "look-ups", "entries"] {
        match what {
            "releases" => counted(&metrics, ("c", "t0"), &release(), &Ok(released()), false),
            "claims of a run" => in_run(&metrics, "c", "t1", false),
            "messages" => metrics.message_stored("c", "t2", false),
            "look-ups" => counted(&metrics, ("c", ""), &Command::Lookup, &Ok(found.clone()), false),
            _ => metrics.entries_counted(entries.clone(), 1, &|_| false),
        }
        let after = is(what);
        assert!(after > before, "{what} have series");
        before = after;
    }
}

/// A name that an operator has set takes the room of the client's name that was counted least recently.
#[test]
fn consumer_that_was_counted_least_recently_makes_room() {
    let metrics = metrics();
    let name = |kind: &str, number: usize| format!("{kind}{number:03}{}", "x".repeat(100));
    let count = |number: usize| {
        for event_type in 0..20 {
            let event_type = format!("t{event_type}");
            counted(&metrics, (&name("c", number), &event_type), &claim(), &Ok(backoff()), false);
        }
    };
    let named = || -> Vec<usize> {
        let text = metrics.text().unwrap();
        (0..100).filter(|number| value(&text, &backoffs(&name("c", *number), "")).is_some()).collect()
    };
    (0..100).for_each(count);
    let before = named();
    assert!(before.len() > 10, "{before:?}");
    let recent = &before[..5];
    for _ in 0..3 {
        metrics.inner.consumers.minute_passed();
    }
    recent.iter().copied().for_each(count);
    for number in 0..1_000 {
        counted(&metrics, (&name("registered", number), ""), &claim(), &Ok(backoff()), true);
        if named().len() <= recent.len() {
            break;
        }
    }
    assert_eq!(named(), recent, "of {}", before.len());
}

#[test]
fn each_report_of_upkeep_is_shown() {
    let metrics = metrics();
    metrics.inbox().erase_lag(Span::from_millis(61_900));
    metrics.upkeep().log_lines_dropped_by(|| 3);
    metrics.upkeep().replaced("claims", true);
    metrics.upkeep().replaced("claims", false);
    metrics.upkeep().replaced("claims", false);
    metrics.doubled("c", false);
    let text = metrics.text().unwrap();
    for (series, is) in [
        ("inbox_erase_lag_seconds", "61"),
        ("store_sessions_replaced_total{outcome=\"ok\",purpose=\"claims\"}", "1"),
        ("store_sessions_replaced_total{outcome=\"failed\",purpose=\"claims\"}", "2"),
        ("doubled_effects_total{consumer=\"c\"}", "1"),
    ] {
        assert_eq!(value(&text, &format!("idempotency_ledger_{series}")), Some(is), "{series}");
    }
    let now = Now {
        sessions: 1,
        sessions_wanted: 2,
        left_behind: 4,
        losses: 5,
        policies_age: Duration::from_millis(6_900),
        policies_unreadable: 7,
        holds: 8,
    };
    metrics.upkeep().now(&now);
    let text = metrics.text().unwrap();
    for (series, is) in [
        ("log_lines_dropped_total", "3"),
        ("store_sessions", "1"),
        ("store_sessions_wanted", "2"),
        ("store_backends_left_behind", "4"),
        ("policies_age_seconds", "6"),
        ("policies_unreadable", "7"),
        ("holds_in_force", "8"),
        ("store_losses_total", "5"),
    ] {
        assert_eq!(value(&text, &format!("idempotency_ledger_{series}")), Some(is), "{series}");
    }
}
