//! A change of some fields of a policy.

use super::Span;
use super::policy::{Backoff, FingerprintMode, OnExpiry, Policy};

/// The fields of a policy that are given; the others stay as they are.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as the policy's fields are")]
pub struct PolicyPatch {
    pub lease: Option<Span>,
    pub max_lease: Option<Span>,
    pub max_hold: Option<Span>,
    pub reclaim_grace: Option<Span>,
    pub on_expiry: Option<OnExpiry>,
    pub max_attempts: Option<i32>,
    pub backoff_initial: Option<Span>,
    pub backoff_multiplier: Option<f64>,
    pub backoff_max: Option<Span>,
    pub backoff_jitter: Option<f64>,
    pub retention: Option<Span>,
    pub failed_retention: Option<Span>,
    pub abandoned_retention: Option<Span>,
    pub result_retention: Option<Span>,
    pub max_redelivery_window: Option<Span>,
    /// The reason; none inside: the risk is not accepted any more.
    pub accepted_risk: Option<Option<String>>,
    pub fingerprint: Option<FingerprintMode>,
    pub disabled: Option<bool>,
    pub claims_per_second: Option<i32>,
}

impl PolicyPatch {
    /// The policy after the change. The retentions that are not given follow `retention` where the rules ask
    /// for it: those of failed and abandoned entries are never shorter, that of results never longer.
    #[must_use]
    pub fn onto(&self, base: &Policy) -> Policy {
        let retention = self.retention.unwrap_or(base.retention);
        let window = self.max_redelivery_window.unwrap_or(base.max_redelivery_window);
        let results = if base.result_retention == base.retention {
            retention
        } else {
            base.result_retention.min(retention)
        };
        Policy {
            version: base.version,
            lease: self.lease.unwrap_or(base.lease),
            max_lease: self.max_lease.unwrap_or(base.max_lease),
            max_hold: self.max_hold.unwrap_or(base.max_hold),
            reclaim_grace: self.reclaim_grace.unwrap_or(base.reclaim_grace),
            on_expiry: self.on_expiry.unwrap_or(base.on_expiry),
            max_attempts: self.max_attempts.unwrap_or(base.max_attempts),
            backoff: Backoff {
                initial: self.backoff_initial.unwrap_or(base.backoff.initial),
                multiplier: self.backoff_multiplier.unwrap_or(base.backoff.multiplier),
                max: self.backoff_max.unwrap_or(base.backoff.max),
                jitter: self.backoff_jitter.unwrap_or(base.backoff.jitter),
            },
            retention,
            failed_retention: self.failed_retention.unwrap_or(base.failed_retention.max(retention)),
            abandoned_retention: self
                .abandoned_retention
                .unwrap_or(base.abandoned_retention.max(retention).max(window)),
            result_retention: self.result_retention.unwrap_or(results),
            max_redelivery_window: window,
            accepted_risk: self.accepted_risk.clone().unwrap_or_else(|| base.accepted_risk.clone()),
            fingerprint: self.fingerprint.unwrap_or(base.fingerprint),
            disabled: self.disabled.unwrap_or(base.disabled),
            claims_per_second: self.claims_per_second.unwrap_or(base.claims_per_second),
            window_floor: base.window_floor,
            doubt: base.doubt,
        }
    }
}
