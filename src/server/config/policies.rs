//! The policies of the file.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::domain::{Backoff, FingerprintMode, OnExpiry, Policy, Span};
use crate::duration_arg::DurationArg;
use crate::ledger::Policies;

/// A policy as the file has it; what is unset comes from the default policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PolicyFile {
    lease: Option<DurationArg>,
    max_lease: Option<DurationArg>,
    max_hold: Option<DurationArg>,
    reclaim_grace: Option<DurationArg>,
    on_expiry: Option<OnExpiry>,
    max_attempts: Option<i32>,
    backoff: BackoffFile,
    retention: Option<DurationArg>,
    failed_retention: Option<DurationArg>,
    abandoned_retention: Option<DurationArg>,
    result_retention: Option<DurationArg>,
    max_redelivery_window: Option<DurationArg>,
    accepted_risk: Option<String>,
    fingerprint: Option<FingerprintMode>,
    disabled: Option<bool>,
    claims_per_second: Option<i32>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BackoffFile {
    initial: Option<DurationArg>,
    multiplier: Option<f64>,
    max: Option<DurationArg>,
    jitter: Option<f64>,
}

/// The policies of a file, checked: the default one, and those of single consumers upon it.
pub(super) fn policies(
    default: &PolicyFile,
    consumers: &BTreeMap<String, PolicyFile>,
    problems: &mut Vec<String>,
) -> Policies {
    let mut checked = |section: &str, policy: Policy| {
        if let Err(errors) = policy.validate() {
            problems.extend(errors.iter().map(|error| format!("{section}.{error}")));
        }
        policy
    };
    let usual = checked("policy", default.clone().resolve());
    let own = consumers.iter().map(|(name, own)| {
        let merged = own.clone().or(default);
        (name.clone(), checked(&format!("consumers.{name:?}"), merged.resolve()))
    });
    let own: BTreeMap<String, Policy> = own.collect();
    if own.contains_key("") {
        problems.push("consumers: a consumer's name is empty".into());
    }
    Policies::new(usual, own)
}

impl PolicyFile {
    fn or(self, lower: &PolicyFile) -> PolicyFile {
        PolicyFile {
            lease: self.lease.or(lower.lease),
            max_lease: self.max_lease.or(lower.max_lease),
            max_hold: self.max_hold.or(lower.max_hold),
            reclaim_grace: self.reclaim_grace.or(lower.reclaim_grace),
            on_expiry: self.on_expiry.or(lower.on_expiry),
            max_attempts: self.max_attempts.or(lower.max_attempts),
            backoff: BackoffFile {
                initial: self.backoff.initial.or(lower.backoff.initial),
                multiplier: self.backoff.multiplier.or(lower.backoff.multiplier),
                max: self.backoff.max.or(lower.backoff.max),
                jitter: self.backoff.jitter.or(lower.backoff.jitter),
            },
            retention: self.retention.or(lower.retention),
            failed_retention: self.failed_retention.or(lower.failed_retention),
            abandoned_retention: self.abandoned_retention.or(lower.abandoned_retention),
            result_retention: self.result_retention.or(lower.result_retention),
            max_redelivery_window: self.max_redelivery_window.or(lower.max_redelivery_window),
            accepted_risk: self.accepted_risk.or_else(|| lower.accepted_risk.clone()),
            fingerprint: self.fingerprint.or(lower.fingerprint),
            disabled: self.disabled.or(lower.disabled),
            claims_per_second: self.claims_per_second.or(lower.claims_per_second),
        }
    }

    /// With the defaults of docs/contract.md, section 8.
    fn resolve(self) -> Policy {
        let usual = Policy::default();
        let span = |human: Option<DurationArg>, default: Span| {
            human.map_or(default, |human| Span::from_std(human.into()))
        };
        let retention = span(self.retention, usual.retention);
        let max_redelivery_window = span(self.max_redelivery_window, usual.max_redelivery_window);
        let month = Span::from_days(30).max(retention);
        Policy {
            version: usual.version,
            lease: span(self.lease, usual.lease),
            max_lease: span(self.max_lease, usual.max_lease),
            max_hold: span(self.max_hold, usual.max_hold),
            reclaim_grace: span(self.reclaim_grace, usual.reclaim_grace),
            on_expiry: self.on_expiry.unwrap_or(usual.on_expiry),
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            backoff: Backoff {
                initial: span(self.backoff.initial, usual.backoff.initial),
                multiplier: self.backoff.multiplier.unwrap_or(usual.backoff.multiplier),
                max: span(self.backoff.max, usual.backoff.max),
                jitter: self.backoff.jitter.unwrap_or(usual.backoff.jitter),
            },
            retention,
            failed_retention: span(self.failed_retention, month),
            abandoned_retention: span(self.abandoned_retention, month.max(max_redelivery_window)),
            result_retention: span(self.result_retention, retention),
            max_redelivery_window,
            accepted_risk: self.accepted_risk.filter(|why| !why.trim().is_empty()),
            fingerprint: self.fingerprint.unwrap_or(usual.fingerprint),
            disabled: self.disabled.unwrap_or(usual.disabled),
            claims_per_second: self.claims_per_second.unwrap_or(usual.claims_per_second),
            window_floor: usual.window_floor,
            doubt: usual.doubt,
        }
    }
}
