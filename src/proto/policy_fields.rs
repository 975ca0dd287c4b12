//! The fields of a policy as texts.

use prost_types::Duration;

use super::{BackoffPolicy, FingerprintMode, OccurredAtMode, OnExpiry, Policy, ReplayMode};
use crate::common::duration_arg::DurationArg;

/// Each field of a policy in the order of the manual: its path, and its value as a policy file has it. A
/// field that is not set has an empty value.
#[must_use]
pub fn policy_fields(policy: &Policy) -> [(&'static str, String); 25] {
    let Policy {
        lease,
        max_lease,
        max_hold,
        reclaim_grace,
        on_expiry,
        max_attempts,
        backoff,
        retention,
        failed_retention,
        abandoned_retention,
        result_retention,
        max_redelivery_window,
        accepted_risk,
        fingerprint,
        disabled,
        claims_per_second,
        occurred_at,
        replay,
        result_bytes_max,
        inbox,
        message_retention,
        backlog_max_age,
    } = policy;
    let BackoffPolicy { initial, multiplier, max, jitter } = backoff.unwrap_or_default();
    let expiry = OnExpiry::try_from(*on_expiry).map(|word| word.as_str_name());
    let mode = FingerprintMode::try_from(*fingerprint).map(|word| word.as_str_name());
    let window = OccurredAtMode::try_from(*occurred_at).map(|word| word.as_str_name());
    let replays = ReplayMode::try_from(*replay).map(|word| word.as_str_name());
    [
        ("lease", time(lease.as_ref())),
        ("max_lease", time(max_lease.as_ref())),
        ("max_hold", time(max_hold.as_ref())),
        ("reclaim_grace", time(reclaim_grace.as_ref())),
        ("on_expiry", word(*on_expiry, expiry.ok(), "ON_EXPIRY_")),
        ("max_attempts", number(max_attempts.as_ref())),
        ("backoff.initial", time(initial.as_ref())),
        ("backoff.multiplier", number(multiplier.as_ref())),
        ("backoff.max", time(max.as_ref())),
        ("backoff.jitter", number(jitter.as_ref())),
        ("retention", time(retention.as_ref())),
        ("failed_retention", time(failed_retention.as_ref())),
        ("abandoned_retention", time(abandoned_retention.as_ref())),
        ("result_retention", time(result_retention.as_ref())),
        ("max_redelivery_window", time(max_redelivery_window.as_ref())),
        ("accepted_risk", accepted_risk.clone()),
        ("fingerprint", word(*fingerprint, mode.ok(), "FINGERPRINT_MODE_")),
        ("disabled", number(disabled.as_ref())),
        ("claims_per_second", number(claims_per_second.as_ref())),
        ("occurred_at", word(*occurred_at, window.ok(), "OCCURRED_AT_MODE_")),
        ("replay", word(*replay, replays.ok(), "REPLAY_MODE_")),
        ("result_bytes_max", number(result_bytes_max.as_ref())),
        ("inbox", number(inbox.as_ref())),
        ("message_retention", time(message_retention.as_ref())),
        ("backlog_max_age", time(backlog_max_age.as_ref())),
    ]
}

fn number<T: ToString>(value: Option<&T>) -> String {
    value.map_or_else(String::new, ToString::to_string)
}

/// A duration as a text; empty for a negative one, which no file can contain.
fn time(value: Option<&Duration>) -> String {
    let value = value.and_then(|value| std::time::Duration::try_from(*value).ok());
    value.map_or_else(String::new, |value| DurationArg::from(value).to_string())
}

/// The bare word of an enum; a value that this binary does not know is shown by its number.
fn word(value: i32, known: Option<&'static str>, prefix: &str) -> String {
    match known {
        _ if value == 0 => String::new(),
        None => value.to_string(),
        Some(word) => word.trim_start_matches(prefix).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_of_a_newer_server_is_shown_by_its_number() {
        let policy = Policy { on_expiry: 99, ..Policy::default() };
        let stated: Vec<_> =
            policy_fields(&policy).into_iter().filter(|(_, text)| !text.is_empty()).collect();
        assert_eq!(stated, [("on_expiry", "99".to_owned())]);
    }
}
