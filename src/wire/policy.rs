//! Converts policies: a message to what it sets, and a policy to a message.

use prost::UnknownEnumValue;
use prost_types::FieldMask;

use super::fields::{FieldChecks, Limits};
use super::words::{self, duration, timestamp};
use crate::domain::{
    Backoff, FingerprintMode, OccurredAtMode, OnExpiry, Policy, PolicyPatch, PolicyVersion, ReplayMode,
    Violation,
};
use crate::proto::{self, policy_fields};

const ACCEPTED_RISK_MAX: usize = 1_024;

/// The paths that a mask names, sorted, without duplicates.
pub(crate) fn named(mask: &FieldMask) -> Vec<String> {
    let mut paths = mask.paths.clone();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// The fields that a message sets. The others keep their values.
pub(crate) fn patch(fields: &mut FieldChecks<'_>, given: &proto::Policy) -> PolicyPatch {
    let proto::Policy {
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
    } = given;
    let proto::BackoffPolicy { initial, multiplier, max, jitter } = backoff.unwrap_or_default();
    let mut span = |name: &str, value: &Option<prost_types::Duration>| {
        value.as_ref().and_then(|value| fields.span(&format!("policy.{name}"), value))
    };
    let patch = PolicyPatch {
        lease: span("lease", lease),
        max_lease: span("max_lease", max_lease),
        max_hold: span("max_hold", max_hold),
        reclaim_grace: span("reclaim_grace", reclaim_grace),
        on_expiry: expiry(*on_expiry).unwrap_or_default(),
        max_attempts: *max_attempts,
        backoff_initial: span("backoff.initial", &initial),
        backoff_multiplier: multiplier,
        backoff_max: span("backoff.max", &max),
        backoff_jitter: jitter,
        retention: span("retention", retention),
        failed_retention: span("failed_retention", failed_retention),
        abandoned_retention: span("abandoned_retention", abandoned_retention),
        result_retention: span("result_retention", result_retention),
        max_redelivery_window: span("max_redelivery_window", max_redelivery_window),
        accepted_risk: (!accepted_risk.trim().is_empty()).then(|| Some(accepted_risk.clone())),
        fingerprint: mode(*fingerprint).unwrap_or_default(),
        disabled: *disabled,
        claims_per_second: *claims_per_second,
        occurred_at: window(*occurred_at).unwrap_or_default(),
        replay: replays(*replay).unwrap_or_default(),
        result_bytes_max: *result_bytes_max,
        inbox: *inbox,
        message_retention: span("message_retention", message_retention),
        backlog_max_age: span("backlog_max_age", backlog_max_age),
    };
    fields.text("policy.accepted_risk", accepted_risk, ACCEPTED_RISK_MAX);
    if expiry(*on_expiry).is_err() {
        fields.wrong("policy.on_expiry", "is not an OnExpiry that this server knows");
    }
    if mode(*fingerprint).is_err() {
        fields.wrong("policy.fingerprint", "is not a FingerprintMode that this server knows");
    }
    if window(*occurred_at).is_err() {
        fields.wrong("policy.occurred_at", "is not an OccurredAtMode that this server knows");
    }
    if replays(*replay).is_err() {
        fields.wrong("policy.replay", "is not a ReplayMode that this server knows");
    }
    patch
}

/// `None` if it is not set.
fn expiry(number: i32) -> Result<Option<OnExpiry>, UnknownEnumValue> {
    Ok(match proto::OnExpiry::try_from(number)? {
        proto::OnExpiry::Unspecified => None,
        proto::OnExpiry::Reclaim => Some(OnExpiry::Reclaim),
        proto::OnExpiry::Park => Some(OnExpiry::Park),
        proto::OnExpiry::ParkIfStarted => Some(OnExpiry::ParkIfStarted),
    })
}

/// `None` if it is not set.
fn mode(number: i32) -> Result<Option<FingerprintMode>, UnknownEnumValue> {
    Ok(match proto::FingerprintMode::try_from(number)? {
        proto::FingerprintMode::Unspecified => None,
        proto::FingerprintMode::Verify => Some(FingerprintMode::Verify),
        proto::FingerprintMode::Ignore => Some(FingerprintMode::Ignore),
        proto::FingerprintMode::Require => Some(FingerprintMode::Require),
    })
}

/// `None` if it is not set.
fn window(number: i32) -> Result<Option<OccurredAtMode>, UnknownEnumValue> {
    Ok(match proto::OccurredAtMode::try_from(number)? {
        proto::OccurredAtMode::Unspecified => None,
        proto::OccurredAtMode::Optional => Some(OccurredAtMode::Optional),
        proto::OccurredAtMode::Require => Some(OccurredAtMode::Require),
    })
}

/// `None` if it is not set.
fn replays(number: i32) -> Result<Option<ReplayMode>, UnknownEnumValue> {
    Ok(match proto::ReplayMode::try_from(number)? {
        proto::ReplayMode::Unspecified => None,
        proto::ReplayMode::Forbid => Some(ReplayMode::Forbid),
        proto::ReplayMode::Suppress => Some(ReplayMode::Suppress),
        proto::ReplayMode::Rebuild => Some(ReplayMode::Rebuild),
    })
}

/// Keeps only the fields that the mask names, all of which must be set.
pub(crate) fn restrict(fields: &mut FieldChecks<'_>, patch: &mut PolicyPatch, mask: &FieldMask) {
    for path in &mask.paths {
        if !PolicyPatch::PATHS.contains(&path.as_str()) {
            let known = || format!("{path:?} is none of {}", PolicyPatch::PATHS.join(", "));
            fields.wrong_as("update_mask", known);
        }
    }
    if mask.paths.iter().any(|path| path == "accepted_risk") {
        patch.accepted_risk.get_or_insert(None);
    }
    for path in patch.keep(&mask.paths) {
        fields.wrong(&format!("policy.{path}"), "is named by update_mask and not set");
    }
}

/// The fields that a policy sets which is stated as a whole. A stated risk with an empty text is withdrawn.
///
/// # Errors
/// Every violation, with its path.
pub(crate) fn stated(given: &proto::Policy, risk_is_stated: bool) -> Result<PolicyPatch, Vec<Violation>> {
    let limits = Limits::default();
    let mut fields = FieldChecks::new(&limits);
    let mut patch = patch(&mut fields, given);
    if risk_is_stated {
        patch.accepted_risk.get_or_insert(None);
    }
    fields.finish(|| patch).map_err(|rejection| rejection.violations)
}

/// A policy as a message.
pub(crate) fn message(policy: &Policy) -> proto::Policy {
    let Policy {
        version: _,
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
        window_floor: _,
        doubt: _,
        run: _,
        replays_until: _,
        held_by: _,
        backlog_full: _,
    } = policy;
    let Backoff { initial, multiplier, max, jitter } = backoff;
    proto::Policy {
        lease: Some(duration(*lease)),
        max_lease: Some(duration(*max_lease)),
        max_hold: Some(duration(*max_hold)),
        reclaim_grace: Some(duration(*reclaim_grace)),
        on_expiry: words::on_expiry(*on_expiry).into(),
        max_attempts: Some(*max_attempts),
        backoff: Some(proto::BackoffPolicy {
            initial: Some(duration(*initial)),
            multiplier: Some(*multiplier),
            max: Some(duration(*max)),
            jitter: Some(*jitter),
        }),
        retention: Some(duration(*retention)),
        failed_retention: Some(duration(*failed_retention)),
        abandoned_retention: Some(duration(*abandoned_retention)),
        result_retention: Some(duration(*result_retention)),
        max_redelivery_window: Some(duration(*max_redelivery_window)),
        accepted_risk: accepted_risk.clone().unwrap_or_default(),
        fingerprint: match fingerprint {
            FingerprintMode::Verify => proto::FingerprintMode::Verify,
            FingerprintMode::Ignore => proto::FingerprintMode::Ignore,
            FingerprintMode::Require => proto::FingerprintMode::Require,
        }
        .into(),
        disabled: Some(*disabled),
        claims_per_second: Some(*claims_per_second),
        occurred_at: match occurred_at {
            OccurredAtMode::Optional => proto::OccurredAtMode::Optional,
            OccurredAtMode::Require => proto::OccurredAtMode::Require,
        }
        .into(),
        replay: match replay {
            ReplayMode::Forbid => proto::ReplayMode::Forbid,
            ReplayMode::Suppress => proto::ReplayMode::Suppress,
            ReplayMode::Rebuild => proto::ReplayMode::Rebuild,
        }
        .into(),
        result_bytes_max: Some(*result_bytes_max),
        inbox: Some(*inbox),
        message_retention: Some(duration(*message_retention)),
        backlog_max_age: Some(duration(*backlog_max_age)),
    }
}

/// The fields that differ.
pub(crate) fn changes(before: &Policy, after: &Policy) -> Vec<proto::PolicyChange> {
    let (before, after) = (message(before), message(after));
    let both = policy_fields(&before).into_iter().zip(policy_fields(&after));
    let differ = both.filter(|((_, from), (_, to))| from != to);
    differ.map(|((path, from), (_, to))| proto::PolicyChange { path: path.to_owned(), from, to }).collect()
}

pub(crate) fn version(version: PolicyVersion) -> proto::PolicyVersion {
    let policy = version.policy.map(|json| Policy::from_stored(&json));
    let unreadable = policy.as_ref().is_some_and(Result::is_err);
    let policy = policy.and_then(Result::ok);
    proto::PolicyVersion {
        version: version.version,
        unreadable,
        policy: policy.as_ref().map(message),
        created_at: Some(timestamp(version.created_at)),
        actor: version.actor,
        reason: version.reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field, its place in the message, and the highest number that is known.
    type EnumField = (&'static str, fn(&mut proto::Policy) -> &mut i32, i32);

    #[test]
    fn stated_keeps_known_enum_numbers_and_refuses_others() {
        let fields: [EnumField; 4] = [
            ("policy.on_expiry", |policy| &mut policy.on_expiry, 3),
            ("policy.fingerprint", |policy| &mut policy.fingerprint, 3),
            ("policy.occurred_at", |policy| &mut policy.occurred_at, 2),
            ("policy.replay", |policy| &mut policy.replay, 3),
        ];
        for (field, place, highest) in fields {
            for number in [-1, 1, 2, 3, 4] {
                let mut given = proto::Policy::default();
                *place(&mut given) = number;
                let stated =
                    stated(&given, false).map(|patch| *place(&mut message(&patch.onto(&Policy::default()))));
                let refused =
                    stated.map_err(|wrong| wrong.into_iter().map(|one| one.field).collect::<Vec<_>>());
                let expected =
                    if (1..=highest).contains(&number) { Ok(number) } else { Err(vec![field.to_owned()]) };
                assert_eq!(refused, expected, "{field}: {number}");
            }
        }
    }
}
