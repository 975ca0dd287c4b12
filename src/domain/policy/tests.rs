use super::*;

#[test]
fn near_exhaustion_begins_with_the_last_attempt() {
    for (max_attempts, from) in [(0, None), (1, Some(0)), (3, Some(2))] {
        let policy = Policy { max_attempts, ..Policy::default() };
        assert_eq!(policy.near_exhaustion_from(), from, "{max_attempts}");
    }
}

#[test]
fn attempts_left_end_at_the_maximum() {
    for (max_attempts, used, left, exhausted) in [
        (0, 1_000, None, false),
        (3, 0, Some(3), false),
        (3, 2, Some(1), false),
        (3, 3, Some(0), true),
        (3, 9, Some(0), true),
    ] {
        let policy = Policy { max_attempts, ..Policy::default() };
        assert_eq!(
            (policy.attempts_left(used), policy.exhausted(used)),
            (left, exhausted),
            "{used} of {max_attempts}"
        );
    }
}

#[test]
fn replay_mode_decides_the_mode_of_new_runs() {
    for (replay, mode) in [
        (ReplayMode::Forbid, None),
        (ReplayMode::Suppress, Some(RunMode::Suppress)),
        (ReplayMode::Rebuild, Some(RunMode::Rebuild)),
    ] {
        assert_eq!(Policy { replay, ..Policy::default() }.run_mode(), mode);
    }
}

#[test]
fn result_is_stored_up_to_its_bound() {
    for (max, bytes, stored) in [(0, 1_000_000, true), (10, 10, true), (10, 11, false), (-1, 0, false)] {
        let policy = Policy { result_bytes_max: max, ..Policy::default() };
        assert_eq!(policy.stores_result(bytes), stored, "{bytes} of {max}");
    }
}

#[test]
fn granted_lease_is_within_its_bounds() {
    let policy = Policy::default();
    for (asked, granted) in [
        (None, policy.lease),
        (Some(Span::ZERO), Span::from_secs(1)),
        (Some(Span::from_secs(90)), Span::from_secs(90)),
        (Some(Span::from_days(1)), policy.max_lease),
    ] {
        assert_eq!(policy.granted_lease(asked), granted, "{asked:?}");
    }
}

/// A change of the default policy, and what is wrong with it then; `None` if it is valid.
type Case = (fn(&mut Policy), Option<&'static str>);

const CASES: &[Case] = &[
    (|_| {}, None),
    (|p| p.lease = Span::from_millis(999), Some("lease: is 999ms, must be 1s to 15m")),
    (|p| p.lease = Span::from_secs(1), None),
    (|p| p.lease = p.max_lease, None),
    (|p| p.lease = p.max_lease + Span::from_secs(1), Some("lease: is 901s, must be 1s to 15m")),
    (
        |p| (p.max_lease, p.max_hold) = (Span::from_days(31), Span::from_days(31)),
        Some("max_lease: is 31d, must be 1s to 30d"),
    ),
    (|p| p.max_hold = Span::from_secs(60), Some("max_hold: is 1m, must be 15m to 400d")),
    (|p| p.max_hold = Span::from_days(401), Some("max_hold: is 401d, must be 15m to 400d")),
    (|p| p.reclaim_grace = Span::from_secs(3_601), Some("reclaim_grace: is 3601s, must be 0ms to 1h")),
    (|p| p.backoff.max = Span::from_days(31), Some("backoff.max: is 31d, must be 0ms to 30d")),
    (|p| p.backoff.initial = Span::from_secs(301), Some("backoff.initial: is 301s, must be 0ms to 5m")),
    (|p| p.backoff.multiplier = 1.0, None),
    (|p| p.backoff.multiplier = 0.5, Some("backoff.multiplier: is 0.5, must be 1 to 100")),
    (|p| p.backoff.jitter = 1.5, Some("backoff.jitter: is 1.5, must be 0 to 1")),
    (
        |p| (p.retention, p.abandoned_retention) = (Span::from_days(31), Span::from_days(31)),
        Some("failed_retention: is 30d, must be 31d to 3650d"),
    ),
    (|p| p.abandoned_retention = Span::from_days(6), Some("abandoned_retention: is 6d, must be 7d to 3650d")),
    (|p| p.result_retention = Span::from_days(8), Some("result_retention: is 8d, must be 0ms to 7d")),
    (|p| p.message_retention = Span::from_days(8), Some("message_retention: is 8d, must be 0ms to 7d")),
    (|p| p.backlog_max_age = Span::from_days(3_651), Some("backlog_max_age: is 3651d, must be 0ms to 3650d")),
    (|p| p.max_attempts = -1, Some("max_attempts: is -1, must be 0 (no limit) to 1000000")),
    (|p| p.max_attempts = 1_000_001, Some("max_attempts: is 1000001, must be 0 (no limit) to 1000000")),
    (|p| p.claims_per_second = -1, Some("claims_per_second: is -1, must be 0 (no limit) to 1000000")),
    (
        |p| p.result_bytes_max = 1_048_577,
        Some("result_bytes_max: is 1048577, must be 0 (the server's bound) to 1048576"),
    ),
    (|p| p.max_redelivery_window = p.retention, None),
    (
        |p| p.max_redelivery_window = Span::from_days(8),
        Some(
            "retention: is 7d, shorter than max_redelivery_window (8d): a message could be delivered again after it was \
             forgotten; lengthen it, or accept the risk and say why (accepted_risk)",
        ),
    ),
    (
        |p| {
            p.max_redelivery_window = Span::from_days(8);
            p.accepted_risk = Some("the broker keeps nothing for more than a day".into());
        },
        None,
    ),
];

#[test]
fn policy_outside_a_bound_is_refused_by_field_and_bound() {
    for (number, (change, wanted)) in CASES.iter().enumerate() {
        let mut policy = Policy::default();
        change(&mut policy);
        let errors = policy.validate().err().unwrap_or_default();
        let found: Vec<String> = errors.iter().map(PolicyError::to_string).collect();
        assert_eq!(found, wanted.iter().map(ToString::to_string).collect::<Vec<_>>(), "case {number}");
        let too_short = wanted.is_some_and(|text| text.contains("max_redelivery_window"));
        assert!(errors.iter().all(|error| error.retention_too_short == too_short));
    }
    let everything = Policy { max_attempts: -1, claims_per_second: -1, ..Policy::default() };
    assert_eq!(everything.validate().unwrap_err().len(), 2);
}
