//! Whole policies: what a change leads to, how two differ, how one is shown.

use prost_types::Duration;

use super::fields::{Fields, fingerprint, on_expiry};
use crate::cli::enums;
use crate::cli::screen::{Screen, Tone};
use crate::cli::text::{clean, exact};
use crate::domain::{Backoff, Policy, Span};
use crate::rpc::{policy_message, proto};

fn span(value: Option<&Duration>) -> Span {
    let micros = |value: &Duration| {
        value.seconds.saturating_mul(1_000_000).saturating_add(i64::from(value.nanos) / 1_000)
    };
    value.map_or(Span::ZERO, |value| Span(micros(value)))
}

/// A policy as the rules have it.
pub(super) fn of(policy: &proto::Policy) -> Policy {
    let backoff = policy.backoff.unwrap_or_default();
    Policy {
        lease: span(policy.lease.as_ref()),
        max_lease: span(policy.max_lease.as_ref()),
        max_hold: span(policy.max_hold.as_ref()),
        reclaim_grace: span(policy.reclaim_grace.as_ref()),
        on_expiry: on_expiry(policy.on_expiry()),
        max_attempts: policy.max_attempts.unwrap_or(0),
        backoff: Backoff {
            initial: span(backoff.initial.as_ref()),
            multiplier: backoff.multiplier.unwrap_or(1.0),
            max: span(backoff.max.as_ref()),
            jitter: backoff.jitter.unwrap_or(0.0),
        },
        retention: span(policy.retention.as_ref()),
        failed_retention: span(policy.failed_retention.as_ref()),
        abandoned_retention: span(policy.abandoned_retention.as_ref()),
        result_retention: span(policy.result_retention.as_ref()),
        max_redelivery_window: span(policy.max_redelivery_window.as_ref()),
        accepted_risk: (!policy.accepted_risk.is_empty()).then(|| policy.accepted_risk.clone()),
        fingerprint: fingerprint(policy.fingerprint()),
        disabled: policy.disabled.unwrap_or(false),
        claims_per_second: policy.claims_per_second.unwrap_or(0),
        ..Policy::default()
    }
}

/// What a policy becomes by what is stated, as the server works it out.
pub(super) fn changed(old: &proto::Policy, fields: &Fields) -> proto::Policy {
    policy_message(&fields.patch().onto(&of(old)))
}

/// What the server would refuse, each with its field.
pub(super) fn violations(policy: &proto::Policy) -> Vec<String> {
    let errors = of(policy).validate().err().unwrap_or_default();
    errors.iter().map(|error| format!("{}: {}", error.field, error.problem)).collect()
}

/// Each field with its value, in the order of the manual.
pub(super) fn rows(policy: &proto::Policy) -> Vec<(&'static str, String)> {
    let time = |value: &Option<Duration>| value.as_ref().map_or_else(|| "-".to_owned(), exact);
    let backoff = policy.backoff.unwrap_or_default();
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let limit = |value: Option<i32>| match value {
        None | Some(0) => "0 (no limit)".to_owned(),
        Some(value) => value.to_string(),
    };
    let window = policy.max_redelivery_window.filter(|window| window.seconds != 0 || window.nanos != 0);
    let risk = if policy.accepted_risk.is_empty() {
        "-".to_owned()
    } else {
        format!("\"{}\"", clean(&policy.accepted_risk))
    };
    vec![
        ("lease", time(&policy.lease)),
        ("max_lease", time(&policy.max_lease)),
        ("max_hold", time(&policy.max_hold)),
        ("reclaim_grace", time(&policy.reclaim_grace)),
        ("on_expiry", enums::on_expiry(policy.on_expiry)),
        ("max_attempts", limit(policy.max_attempts)),
        ("backoff.initial", time(&backoff.initial)),
        ("backoff.multiplier", number(backoff.multiplier)),
        ("backoff.max", time(&backoff.max)),
        ("backoff.jitter", number(backoff.jitter)),
        ("retention", time(&policy.retention)),
        ("failed_retention", time(&policy.failed_retention)),
        ("abandoned_retention", time(&policy.abandoned_retention)),
        ("result_retention", time(&policy.result_retention)),
        ("max_redelivery_window", window.as_ref().map_or_else(|| "not stated".to_owned(), exact)),
        ("accepted_risk", risk),
        ("fingerprint", enums::fingerprint(policy.fingerprint)),
        ("disabled", policy.disabled.unwrap_or(false).to_string()),
        ("claims_per_second", limit(policy.claims_per_second)),
    ]
}

/// The fields that differ: name, old, new.
pub(super) fn difference(old: &proto::Policy, new: &proto::Policy) -> Vec<(&'static str, String, String)> {
    let both = rows(old).into_iter().zip(rows(new));
    both.filter(|((_, old), (_, new))| old != new).map(|((name, old), (_, new))| (name, old, new)).collect()
}

/// A difference for people: `lease: 30s → 2m`.
pub(super) fn lines(screen: Screen, difference: &[(&'static str, String, String)]) -> Vec<String> {
    let line = |(name, old, new): &(&'static str, String, String)| {
        format!("  {name}: {} → {}", screen.toned(old, Tone::Bad), screen.toned(new, Tone::Good))
    };
    difference.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_again_is_the_same_policy() {
        let default = policy_message(&Policy { claims_per_second: 5, ..Policy::default() });
        assert_eq!(policy_message(&of(&default)), default);
        assert!(difference(&default, &default).is_empty() && violations(&default).is_empty());
    }

    #[test]
    fn a_change_tells_what_follows_from_it() {
        let default = policy_message(&Policy::default());
        let fields: Fields =
            serde_saphyr::from_str("{retention: 60d, backoff: {max: 10m}, claims_per_second: 9}").unwrap();
        let names: Vec<&str> =
            difference(&default, &changed(&default, &fields)).iter().map(|(name, _, _)| *name).collect();
        let expected = [
            "backoff.max",
            "retention",
            "failed_retention",
            "abandoned_retention",
            "result_retention",
            "claims_per_second",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn what_the_server_would_refuse_is_known_before() {
        let default = policy_message(&Policy::default());
        let fields: Fields = serde_saphyr::from_str("{lease: 0s, max_redelivery_window: 14d}").unwrap();
        let found = violations(&changed(&default, &fields));
        assert!(found.iter().any(|one| one.starts_with("lease: ")), "{found:?}");
        assert!(found.iter().any(|one| one.contains("accepted_risk")), "{found:?}");
    }
}
