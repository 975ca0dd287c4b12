//! What was refused, and why. Every reason is there from the start on, at zero: an increase over it then sees the first
//! one, too, which may be the only one.

use prometheus::{Error, IntCounter, IntCounterVec, Registry};

use super::catalogue::{ALERTS, REFUSALS};
use crate::domain::{Reason, Rejection};

/// See the module.
pub(super) struct Refusals {
    refusals: Vec<(Reason, IntCounter)>,
    alerts: Vec<(Reason, IntCounter)>,
}

impl Refusals {
    pub(super) fn new(registry: &Registry) -> Result<Refusals, Error> {
        let refusals = by_reason(&REFUSALS.counters(registry)?)?;
        Ok(Refusals { refusals, alerts: by_reason(&ALERTS.counters(registry)?)? })
    }

    pub(super) fn refused(&self, rejection: &Rejection) {
        count(&self.refusals, rejection.reason);
        if let Some(alert) = rejection.alert {
            count(&self.alerts, alert.reason);
        }
    }
}

fn by_reason(counts: &IntCounterVec) -> Result<Vec<(Reason, IntCounter)>, Error> {
    let of = |reason: &Reason| Ok((*reason, counts.get_metric_with_label_values(&[reason.word()])?));
    Reason::ALL.iter().map(of).collect()
}

fn count(counts: &[(Reason, IntCounter)], reason: Reason) {
    if let Some((_, count)) = counts.iter().find(|(one, _)| *one == reason) {
        count.inc();
    }
}
