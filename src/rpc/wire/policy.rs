//! A policy as messages have it, and what of it a message sets.

use prost_types::FieldMask;

use super::fields::Fields;
use super::words::{duration, on_expiry, timestamp};
use crate::domain::{FingerprintMode, OnExpiry, Policy, PolicyPatch, PolicyVersion};
use crate::rpc::proto::{self, policy_fields};

const ACCEPTED_RISK_MAX: usize = 1_024;
/// What a mask names, sorted, each once.
pub(crate) fn named(mask: &FieldMask) -> Vec<String> {
    let mut paths = mask.paths.clone();
    paths.sort_unstable();
    paths.dedup();
    paths
}

pub(crate) fn patch(fields: &mut Fields<'_>, given: &proto::Policy) -> PolicyPatch {
    let backoff = given.backoff.unwrap_or_default();
    let mut span = |name: &str, value: &Option<prost_types::Duration>| {
        value.as_ref().and_then(|value| fields.span(&format!("policy.{name}"), value))
    };
    let mut patch = PolicyPatch {
        lease: span("lease", &given.lease),
        max_lease: span("max_lease", &given.max_lease),
        max_hold: span("max_hold", &given.max_hold),
        reclaim_grace: span("reclaim_grace", &given.reclaim_grace),
        max_attempts: given.max_attempts,
        backoff_initial: span("backoff.initial", &backoff.initial),
        backoff_multiplier: backoff.multiplier,
        backoff_max: span("backoff.max", &backoff.max),
        backoff_jitter: backoff.jitter,
        retention: span("retention", &given.retention),
        failed_retention: span("failed_retention", &given.failed_retention),
        abandoned_retention: span("abandoned_retention", &given.abandoned_retention),
        result_retention: span("result_retention", &given.result_retention),
        max_redelivery_window: span("max_redelivery_window", &given.max_redelivery_window),
        accepted_risk: (!given.accepted_risk.is_empty()).then(|| Some(given.accepted_risk.clone())),
        disabled: given.disabled,
        claims_per_second: given.claims_per_second,
        ..PolicyPatch::default()
    };
    fields.text("policy.accepted_risk", &given.accepted_risk, ACCEPTED_RISK_MAX);
    patch.on_expiry = match proto::OnExpiry::try_from(given.on_expiry) {
        Ok(proto::OnExpiry::Unspecified) => None,
        Ok(proto::OnExpiry::Reclaim) => Some(OnExpiry::Reclaim),
        Ok(proto::OnExpiry::Park) => Some(OnExpiry::Park),
        Ok(proto::OnExpiry::ParkIfStarted) => Some(OnExpiry::ParkIfStarted),
        Err(_) => {
            fields.wrong("policy.on_expiry", "is no OnExpiry that this server knows");
            None
        }
    };
    patch.fingerprint = match proto::FingerprintMode::try_from(given.fingerprint) {
        Ok(proto::FingerprintMode::Unspecified) => None,
        Ok(proto::FingerprintMode::Verify) => Some(FingerprintMode::Verify),
        Ok(proto::FingerprintMode::Ignore) => Some(FingerprintMode::Ignore),
        Ok(proto::FingerprintMode::Require) => Some(FingerprintMode::Require),
        Err(_) => {
            fields.wrong("policy.fingerprint", "is no FingerprintMode that this server knows");
            None
        }
    };
    patch
}

/// Leaves only what the mask names, all of which must be there.
pub(crate) fn restrict(fields: &mut Fields<'_>, patch: &mut PolicyPatch, mask: &FieldMask) {
    let paths = policy_fields(&proto::Policy::default()).map(|(path, _)| path);
    for path in &mask.paths {
        if !paths.contains(&path.as_str()) {
            fields.wrong_as("update_mask", || format!("{path:?} is none of {}", paths.join(", ")));
        }
    }
    let named = |path: &str| mask.paths.iter().any(|one| one == path);
    if named("accepted_risk") {
        patch.accepted_risk.get_or_insert(None);
    }
    let mut missing = Vec::new();
    macro_rules! keep {
        ($($field:ident: $path:literal),* $(,)?) => {
            $(if !named($path) {
                patch.$field = None;
            } else if patch.$field.is_none() {
                missing.push($path);
            })*
        };
    }
    keep!(lease: "lease", max_lease: "max_lease", max_hold: "max_hold", reclaim_grace: "reclaim_grace",
        on_expiry: "on_expiry", max_attempts: "max_attempts", backoff_initial: "backoff.initial",
        backoff_multiplier: "backoff.multiplier", backoff_max: "backoff.max", backoff_jitter: "backoff.jitter",
        retention: "retention", failed_retention: "failed_retention",
        abandoned_retention: "abandoned_retention", result_retention: "result_retention",
        max_redelivery_window: "max_redelivery_window", accepted_risk: "accepted_risk",
        fingerprint: "fingerprint", disabled: "disabled", claims_per_second: "claims_per_second");
    for path in missing {
        fields.wrong(&format!("policy.{path}"), "is named by update_mask and not set");
    }
}

/// A policy as messages have it.
pub(crate) fn message(policy: &Policy) -> proto::Policy {
    proto::Policy {
        lease: Some(duration(policy.lease)),
        max_lease: Some(duration(policy.max_lease)),
        max_hold: Some(duration(policy.max_hold)),
        reclaim_grace: Some(duration(policy.reclaim_grace)),
        on_expiry: on_expiry(policy.on_expiry).into(),
        max_attempts: Some(policy.max_attempts),
        backoff: Some(proto::BackoffPolicy {
            initial: Some(duration(policy.backoff.initial)),
            multiplier: Some(policy.backoff.multiplier),
            max: Some(duration(policy.backoff.max)),
            jitter: Some(policy.backoff.jitter),
        }),
        retention: Some(duration(policy.retention)),
        failed_retention: Some(duration(policy.failed_retention)),
        abandoned_retention: Some(duration(policy.abandoned_retention)),
        result_retention: Some(duration(policy.result_retention)),
        max_redelivery_window: Some(duration(policy.max_redelivery_window)),
        accepted_risk: policy.accepted_risk.clone().unwrap_or_default(),
        fingerprint: match policy.fingerprint {
            FingerprintMode::Verify => proto::FingerprintMode::Verify,
            FingerprintMode::Ignore => proto::FingerprintMode::Ignore,
            FingerprintMode::Require => proto::FingerprintMode::Require,
        }
        .into(),
        disabled: Some(policy.disabled),
        claims_per_second: Some(policy.claims_per_second),
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
