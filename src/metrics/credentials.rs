//! Credential files: the server's certificate, clients' certificates and tokens. When they end, and whether
//! they can be read.

use prometheus::{Error, IntCounterVec, IntGaugeVec, Registry};

use super::catalogue::{CERTIFICATE_ENDS, FILES_FAILING, FILES_READ_AGAIN, LIST_ENDS, TOKEN_ENDS};

/// The gauges and counts of credential files.
pub(crate) struct Credentials {
    /// Without a certificate the gauge has no series: zero would be a date. The same holds for lists.
    certificate_ends: IntGaugeVec,
    list_ends: IntGaugeVec,
    token_ends: IntGaugeVec,
    failing: IntGaugeVec,
    read_again: IntCounterVec,
}

impl Credentials {
    pub(super) fn new(registry: &Registry) -> Result<Credentials, Error> {
        Ok(Credentials {
            certificate_ends: CERTIFICATE_ENDS.gauges(registry)?,
            list_ends: LIST_ENDS.gauges(registry)?,
            token_ends: TOKEN_ENDS.gauges(registry)?,
            failing: FILES_FAILING.gauges(registry)?,
            read_again: FILES_READ_AGAIN.counters(registry)?,
        })
    }

    /// Sets when the server's current certificate ends, in seconds since 1970.
    pub(crate) fn certificate_ends(&self, at: i64) {
        if let Ok(gauge) = self.certificate_ends.get_metric_with_label_values::<&str>(&[]) {
            gauge.set(at);
        }
    }

    /// Sets when the first of the current revocation lists is due to be replaced; `None` if no list states it.
    pub(crate) fn list_ends(&self, at: Option<i64>) {
        set_or_remove(&self.list_ends, at);
    }

    /// Sets when the first of the current tokens ends; `None` if no token has an end.
    pub(crate) fn token_ends(&self, at: Option<i64>) {
        set_or_remove(&self.token_ends, at);
    }

    /// Records that the file of this setting was checked, and whether it is unusable. Both of its series
    /// exist from then on.
    pub(crate) fn looked_at(&self, setting: &str, failing: bool) {
        if let Ok(gauge) = self.failing.get_metric_with_label_values(&[setting]) {
            gauge.set(i64::from(failing));
        }
        drop(self.read_again.get_metric_with_label_values(&[setting]));
    }

    /// Counts that the present content of this setting's file came into force.
    pub(crate) fn put_in_force(&self, setting: &str) {
        if let Ok(count) = self.read_again.get_metric_with_label_values(&[setting]) {
            count.inc();
        }
    }
}

/// Sets the one series of a gauge, which is absent for `None`.
fn set_or_remove(gauges: &IntGaugeVec, value: Option<i64>) {
    match value {
        Some(value) => {
            if let Ok(gauge) = gauges.get_metric_with_label_values::<&str>(&[]) {
                gauge.set(value);
            }
        }
        None => drop(gauges.remove_label_values::<&str>(&[])),
    }
}
