//! The fields of a policy that people state: by flags and in files, under the names of the contract.

use clap::Args;
use serde::Deserialize;

use crate::cli::enums::{Fingerprint, OnExpiry};
use crate::cli::text::duration;
use crate::duration_arg::DurationArg;
use crate::rpc::proto;

/// What is stated; the rest stays as it is.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[group(skip)]
pub(super) struct Fields {
    /// The lease of a claim that asks for none
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    lease: Option<DurationArg>,
    /// Longer leases are clamped to it
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    max_lease: Option<DurationArg>,
    /// For how long a claim may be held, renewals included
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    max_hold: Option<DurationArg>,
    /// For how long after a lease nobody else is granted the key
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    reclaim_grace: Option<DurationArg>,
    /// What becomes of a claim that expires
    #[arg(long, ignore_case = true, help_heading = "Fields")]
    on_expiry: Option<OnExpiry>,
    /// How many attempts; 0: no limit
    #[arg(long, value_name = "N", help_heading = "Fields")]
    max_attempts: Option<i32>,
    #[command(flatten)]
    backoff: Backoff,
    /// For how long a completed entry is kept
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    retention: Option<DurationArg>,
    /// For how long a terminally failed entry is kept
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    failed_retention: Option<DurationArg>,
    /// For how long an entry is kept that nobody claims any more
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    abandoned_retention: Option<DurationArg>,
    /// For how long results are handed out
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    result_retention: Option<DurationArg>,
    /// The longest time after which a message can still be delivered again
    #[arg(long, value_name = "DURATION", help_heading = "Fields")]
    max_redelivery_window: Option<DurationArg>,
    /// Why a retention below that window is accepted; empty: it is not
    #[arg(long, value_name = "WHY", help_heading = "Fields")]
    accepted_risk: Option<String>,
    /// How fingerprints are treated
    #[arg(long, ignore_case = true, help_heading = "Fields")]
    fingerprint: Option<Fingerprint>,
    /// No new grants: the hold switch
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Fields")]
    disabled: Option<bool>,
    /// How many Claims each server takes a second; 0: no limit
    #[arg(long, value_name = "N", help_heading = "Fields")]
    claims_per_second: Option<i32>,
    /// In a file: take the consumer's policy back.
    #[arg(skip)]
    pub(super) delete: bool,
}

/// When the next attempt is due.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[group(skip)]
struct Backoff {
    /// The wait after the first failed attempt
    #[arg(long = "backoff-initial", value_name = "DURATION", help_heading = "Fields")]
    initial: Option<DurationArg>,
    /// The factor by which the wait grows from attempt to attempt
    #[arg(long = "backoff-multiplier", value_name = "FACTOR", help_heading = "Fields")]
    multiplier: Option<f64>,
    /// The longest wait
    #[arg(long = "backoff-max", value_name = "DURATION", help_heading = "Fields")]
    max: Option<DurationArg>,
    /// The share of the wait that may be taken away
    #[arg(long = "backoff-jitter", value_name = "SHARE", help_heading = "Fields")]
    jitter: Option<f64>,
}

impl Fields {
    /// The paths of what is stated.
    pub(super) fn paths(&self) -> Vec<String> {
        let stated = [
            ("lease", self.lease.is_some()),
            ("max_lease", self.max_lease.is_some()),
            ("max_hold", self.max_hold.is_some()),
            ("reclaim_grace", self.reclaim_grace.is_some()),
            ("on_expiry", self.on_expiry.is_some()),
            ("max_attempts", self.max_attempts.is_some()),
            ("backoff.initial", self.backoff.initial.is_some()),
            ("backoff.multiplier", self.backoff.multiplier.is_some()),
            ("backoff.max", self.backoff.max.is_some()),
            ("backoff.jitter", self.backoff.jitter.is_some()),
            ("retention", self.retention.is_some()),
            ("failed_retention", self.failed_retention.is_some()),
            ("abandoned_retention", self.abandoned_retention.is_some()),
            ("result_retention", self.result_retention.is_some()),
            ("max_redelivery_window", self.max_redelivery_window.is_some()),
            ("accepted_risk", self.accepted_risk.is_some()),
            ("fingerprint", self.fingerprint.is_some()),
            ("disabled", self.disabled.is_some()),
            ("claims_per_second", self.claims_per_second.is_some()),
        ];
        stated.into_iter().filter(|(_, is)| *is).map(|(path, _)| path.to_owned()).collect()
    }

    /// As the wire has it: only what is stated.
    pub(super) fn message(&self) -> proto::Policy {
        let time = |value: Option<DurationArg>| value.map(|value| duration(value.into()));
        proto::Policy {
            lease: time(self.lease),
            max_lease: time(self.max_lease),
            max_hold: time(self.max_hold),
            reclaim_grace: time(self.reclaim_grace),
            on_expiry: self.on_expiry.map_or(proto::OnExpiry::Unspecified, Into::into).into(),
            max_attempts: self.max_attempts,
            backoff: Some(proto::BackoffPolicy {
                initial: time(self.backoff.initial),
                multiplier: self.backoff.multiplier,
                max: time(self.backoff.max),
                jitter: self.backoff.jitter,
            }),
            retention: time(self.retention),
            failed_retention: time(self.failed_retention),
            abandoned_retention: time(self.abandoned_retention),
            result_retention: time(self.result_retention),
            max_redelivery_window: time(self.max_redelivery_window),
            accepted_risk: self.accepted_risk.clone().unwrap_or_default(),
            fingerprint: self.fingerprint.map_or(proto::FingerprintMode::Unspecified, Into::into).into(),
            disabled: self.disabled,
            claims_per_second: self.claims_per_second,
        }
    }
}
