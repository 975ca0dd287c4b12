//! Names that clients choose use a bounded number of series, and consumers with a policy are named.

use super::*;

#[test]
fn names_of_consumers_take_a_bounded_number_of_series() {
    let metrics = metrics();
    // A refused consumer gets no series.
    let refused = Err(Rejection::new(Reason::UnknownConsumer, "no"));
    for number in 0..1_000 {
        counted(&metrics, (&format!("junk{number}"), ""), &release(), &refused, false);
    }
    for number in 0..1_000 {
        counted(&metrics, (&format!("c{number}"), ""), &release(), &Ok(released()), false);
    }
    counted(&metrics, ("registered", ""), &release(), &Ok(released()), true);
    let text = metrics.text().unwrap();
    let lines = text.lines().filter(|line| line.starts_with("idempotency_ledger_claims_total{")).count();
    assert_eq!(
        lines,
        102 * 11,
        "a hundred consumers, one with a policy and the others, each with eleven verdicts"
    );
    for (consumer, is) in [
        ("c0", Some("1")),
        ("c99", Some("1")),
        ("c100", None),
        ("registered", Some("1")),
        ("other", Some("900")),
    ] {
        assert_eq!(value(&text, &releases(consumer)), is, "{consumer}");
    }
    // A consumer with series keeps them.
    counted(&metrics, ("c0", ""), &release(), &Ok(released()), false);
    assert_eq!(value(&metrics.text().unwrap(), &releases("c0")), Some("2"));
}

/// Whichever came first: consumers with a policy have series, and those without one make room for them.
#[test]
fn consumer_with_a_policy_has_series_beyond_the_limit_of_clients() {
    let metrics = metrics();
    // Long names and event types, so that the limit is reached.
    let name = |kind: &str, number: usize| format!("{kind}{number:03}{}", "x".repeat(100));
    for number in 0..100 {
        for event_type in 0..20 {
            let event_type = format!("t{event_type}");
            counted(&metrics, (&name("c", number), &event_type), &claim(), &Ok(backoff()), false);
        }
    }
    let named = |kind: &str| {
        let text = metrics.text().unwrap();
        let has = |number: &usize| value(&text, &backoffs(&name(kind, *number), "")).is_some();
        (0..100).filter(has).count()
    };
    let before = named("c");
    for number in 0..40 {
        counted(&metrics, (&name("registered", number), ""), &claim(), &Ok(backoff()), true);
    }
    assert_eq!(named("registered"), 40);
    // Each of those has twenty event types: removing one makes room for more than one new consumer.
    let after = named("c");
    assert!((5..before).contains(&after), "{before} had room, and {after} have");
    let text = metrics.text().unwrap();
    assert!(text.len() < 2_000_000, "{} bytes", text.len());
    // Even consumers with a policy are bounded.
    for number in 0..1_000 {
        counted(&metrics, (&name("more", number), ""), &claim(), &Ok(backoff()), true);
    }
    assert_eq!((named("registered"), named("c")), (40, 0));
    assert!(metrics.text().unwrap().len() < 2_000_000);
}

/// The consumers of one tenant, each with twenty event types: as many names as clients can have series for.
fn fill_with_clients_names(metrics: &Metrics) {
    for number in 0..10_000 {
        let (consumer, event_type) = (format!("tenant-{:04}", number / 20), format!("t{}", number % 20));
        counted(metrics, (&consumer, &event_type), &claim(), &Ok(backoff()), false);
    }
}

#[test]
fn operators_names_have_series_after_many_names_of_clients() {
    for by_rights in [false, true] {
        let metrics = metrics();
        if by_rights {
            metrics.named_by_rights(HashSet::from(["payments".into()]));
        }
        fill_with_clients_names(&metrics);
        counted(&metrics, ("stranger", ""), &claim(), &Ok(backoff()), false);
        for number in 0..20 {
            let event_type = format!("e{number}");
            counted(&metrics, ("payments", &event_type), &claim(), &Ok(backoff()), !by_rights);
        }
        let text = metrics.text().unwrap();
        for (consumer, event_type, is) in [
            ("stranger", "", None),
            ("payments", "e0", Some("1")),
            ("payments", "e19", Some("1")),
            ("payments", "other", None),
        ] {
            assert_eq!(
                value(&text, &backoffs(consumer, event_type)),
                is,
                "{by_rights} {consumer} {event_type}"
            );
        }
        assert!(text.len() < 2_000_000, "{} bytes", text.len());
    }
}

/// A consumer has series before the rights file names it, and keeps them from then on.
#[test]
fn consumer_named_by_rights_later_keeps_its_series() {
    let metrics = metrics();
    for first in ["payments", "of a client"] {
        counted(&metrics, (first, ""), &claim(), &Ok(backoff()), false);
    }
    metrics.named_by_rights(HashSet::from(["payments".into()]));
    metrics.inner.consumers.policies(&|_| false);
    // Both are least recently counted from now on.
    metrics.inner.consumers.minute_passed();
    fill_with_clients_names(&metrics);
    for number in 0..100 {
        counted(&metrics, (&format!("registered{number}"), ""), &claim(), &Ok(backoff()), true);
    }
    let text = metrics.text().unwrap();
    assert_eq!(value(&text, &backoffs("payments", "")), Some("1"));
    assert_eq!(value(&text, &backoffs("of a client", "")), None, "made room");
}

#[test]
fn answers_beyond_the_limit_of_operators_names_are_reported_once() {
    let metrics = metrics();
    let name = |number: usize| format!("registered{number:04}{}", "x".repeat(100));
    for number in 0..100 {
        counted(&metrics, (&name(number), ""), &claim(), &Ok(backoff()), true);
    }
    let text = metrics.text().unwrap();
    let left_out = (0..100).filter(|number| value(&text, &backoffs(&name(*number), "")).is_none()).count();
    assert!(left_out > 0, "there was room for all");
    let reported = [(); 2].map(|()| metrics.inner.consumers.minute_passed());
    assert_eq!(reported, [left_out as u64, 0]);
    // Clients' names beyond the limit are not reported: their number is bounded on purpose.
    fill_with_clients_names(&metrics);
    assert_eq!(metrics.inner.consumers.minute_passed(), 0);
}

/// Prometheus' text format has no escape for these: they are shown as readable escapes, and two names stay
/// distinct.
#[test]
fn labels_show_control_and_bidi_characters_as_escapes() {
    let metrics = metrics();
    let names = ["a\u{9b}2J", "a\\u{9b}2J", "a\u{202e}b"];
    for (number, name) in names.into_iter().enumerate() {
        for _ in 0..=number {
            counted(&metrics, (name, name), &claim(), &Ok(backoff()), false);
        }
    }
    let all = names.into_iter().map(|name| (name.to_owned(), Counted::default())).collect();
    metrics.entries_counted(all, 1, &|_| false);
    let text = metrics.text().unwrap();
    assert!(!text.contains(['\u{9b}', '\u{202e}']), "{text}");
    // The format itself writes a backslash as two.
    for (label, is) in
        [(r"a\\u{9b}2J", Some("1")), (r"a\\u{5c}u{9b}2J", Some("2")), (r"a\\u{202e}b", Some("3"))]
    {
        assert_eq!(value(&text, &backoffs(label, label)), is, "{label}");
        let entries = format!("idempotency_ledger_entries{{consumer=\"{label}\",state=\"parked\"}}");
        assert_eq!(value(&text, &entries), Some("0"), "{label}");
    }
    metrics.entries_counted(BTreeMap::new(), 2, &|_| false);
    for _ in 0..70 {
        metrics.inner.consumers.minute_passed();
    }
    let text = metrics.text().unwrap();
    assert!(!text.contains("u{"), "all of them are forgotten: {text}");
    assert!(metrics.inner.consumers.limit().is_empty(), "and so is the room that they took");
}

#[test]
fn event_types_take_a_bounded_number_of_series() {
    let metrics = metrics();
    for number in 0..100 {
        counted(&metrics, ("c", &format!("t{number}")), &claim(), &Ok(backoff()), false);
    }
    counted(&metrics, ("c", ""), &claim(), &Ok(backoff()), false);
    let text = metrics.text().unwrap();
    for (event_type, is) in
        [("t0", Some("1")), ("t19", Some("1")), ("t20", None), ("other", Some("80")), ("", Some("1"))]
    {
        assert_eq!(value(&text, &backoffs("c", event_type)), is, "{event_type}");
    }
}

/// The worst case: each name has the maximum length, and each character is written as two.
#[test]
fn no_client_makes_the_text_longer_than_two_megabytes() {
    for (name, event_type, has_policy) in [("c", "t", true), (&*"\"".repeat(123), &*"\"".repeat(123), false)]
    {
        let metrics = metrics();
        for number in 0..10_000 {
            let consumer = format!("{name}{:05}", number / 20);
            let event_type = format!("{event_type}{number:05}");
            counted(&metrics, (&consumer, &event_type), &claim(), &Ok(backoff()), has_policy);
        }
        let text = metrics.text().unwrap();
        let series = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(series < 20_000 && text.len() < 2_000_000, "{series} series, {} bytes", text.len());
        assert!(text.len() > 1_000_000, "there was room: {series} series, {} bytes", text.len());
        assert_ne!(value(&text, &backoffs("other", "")), Some("0"));
    }
}

#[test]
fn series_idle_for_an_hour_are_removed() {
    let metrics = metrics();
    let hour = || {
        for _ in 0..60 {
            metrics.inner.consumers.minute_passed();
        }
    };
    let fill = |from: usize| {
        (from..from + 100).for_each(|number| {
            // A tenth of them have an event type: with all of them, clients' names would reach their limit.
            let event_type = if number % 10 == 0 { "t" } else { "" };
            counted(&metrics, (&format!("c{number}"), event_type), &claim(), &Ok(backoff()), false);
        });
    };
    fill(0);
    hour();
    counted(&metrics, ("c10", ""), &claim(), &Ok(backoff()), false);
    metrics.inner.consumers.minute_passed();
    fill(100);
    let text = metrics.text().unwrap();
    for (consumer, event_type, is) in [
        ("c0", "", None),
        ("c0", "t", None),
        ("c10", "", Some("1")),
        ("c10", "t", None),
        ("c100", "t", Some("1")),
        ("c190", "t", Some("1")),
        ("c198", "", Some("1")),
        ("c199", "", None),
        ("other", "", Some("1")),
    ] {
        assert_eq!(value(&text, &backoffs(consumer, event_type)), is, "{consumer} {event_type}");
    }
    hour();
    metrics.inner.consumers.minute_passed();
    let left = metrics.text().unwrap();
    assert!(left.lines().all(|line| line.starts_with('#') || !line.contains("consumer=\"c")), "{left}");
}

/// Whatever a consumer is called, the series of the others stay.
#[test]
fn consumer_named_other_is_one_of_the_others() {
    let metrics = metrics();
    counted(&metrics, ("other", "other"), &claim(), &Ok(backoff()), true);
    for _ in 0..70 {
        metrics.inner.consumers.minute_passed();
    }
    counted(&metrics, ("other", "other"), &claim(), &Ok(backoff()), true);
    assert_eq!(value(&metrics.text().unwrap(), &backoffs("other", "")), Some("2"));
}

/// A consumer with a policy is named whatever its answers are; the refusals of a consumer without one count
/// for the others.
#[test]
fn refused_consumer_with_a_policy_is_named() {
    let metrics = metrics();
    let disabled = Err(Rejection::new(Reason::ConsumerDisabled, "no"));
    let lost = Err(Rejection::new(Reason::LeaseLost, "no"));
    counted(&metrics, ("registered", ""), &claim(), &disabled, true);
    counted(&metrics, ("stranger", ""), &claim(), &disabled, false);
    counted(&metrics, ("registered", ""), &release(), &lost, true);
    let text = metrics.text().unwrap();
    for (series, is) in [
        (backoffs("registered", "").replace("backoff", "rejected"), Some("1")),
        (backoffs("other", "").replace("backoff", "rejected"), Some("1")),
        (backoffs("stranger", "").replace("backoff", "rejected"), None),
        (releases("registered").replace("\"ok\"", "\"superseded\""), Some("1")),
    ] {
        assert_eq!(value(&text, &series), is, "{series}");
    }
}
