//! Counts of refusals by reason. Every reason exists from the start on, at zero: `increase` then shows the
//! first refusal too, which may be the only one.

use prometheus::{Error, IntCounter, IntCounterVec, Registry};

use super::catalogue::{ALERTS, CORRECTED, REFUSALS};
use crate::domain::{Reason, Rejection};

/// The counts of refusals.
pub(super) struct Refusals {
    reasons: Vec<(Reason, IntCounter)>,
    alerts: Vec<(Reason, IntCounter)>,
    corrected: Vec<IntCounter>,
}

/// The fields whose values beyond a bound are corrected instead of refused.
const CORRECTED_FIELDS: [&str; 7] =
    ["result", "checkpoint", "event_type", "kind", "retry_after", "delay", "lease"];

impl Refusals {
    pub(super) fn new(registry: &Registry) -> Result<Refusals, Error> {
        let reasons = by_reason(&REFUSALS.counters(registry)?)?;
        let corrected = CORRECTED.counters(registry)?;
        let of = |field: &&str| corrected.get_metric_with_label_values(&[field]);
        let corrected = CORRECTED_FIELDS.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Refusals { reasons, alerts: by_reason(&ALERTS.counters(registry)?)?, corrected })
    }

    pub(super) fn corrected(&self, field: &str) {
        let counts = CORRECTED_FIELDS.iter().zip(&self.corrected);
        counts.filter(|(one, _)| **one == field).for_each(|(_, count)| count.inc());
    }

    pub(super) fn refused(&self, rejection: &Rejection) {
        count(&self.reasons, rejection.reason, 1);
        if let Some(alert) = rejection.alert {
            count(&self.alerts, alert.reason, 1);
        }
    }

    /// Counts the refusal of this many commands for the same reason.
    pub(super) fn all_refused(&self, rejection: &Rejection, commands: usize) {
        count(&self.reasons, rejection.reason, commands);
    }
}

fn by_reason(counts: &IntCounterVec) -> Result<Vec<(Reason, IntCounter)>, Error> {
    let of = |reason: &Reason| Ok((*reason, counts.get_metric_with_label_values(&[reason.word()])?));
    Reason::ALL.iter().map(of).collect()
}

fn count(counts: &[(Reason, IntCounter)], reason: Reason, times: usize) {
    if let Some((_, count)) = counts.iter().find(|(one, _)| *one == reason) {
        count.inc_by(u64::try_from(times).unwrap_or(u64::MAX));
    }
}
