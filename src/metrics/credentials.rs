//! The files by which callers know the server, and the server knows callers: until when, and whether they can be read.

use prometheus::{Error, IntCounterVec, IntGaugeVec, Registry};

use super::catalogue::{CERTIFICATE_ENDS, FILES_FAILING, FILES_READ_AGAIN, LIST_ENDS, TOKEN_ENDS};

/// See the module.
pub(crate) struct Credentials {
    /// It has no series where there is no certificate: zero would be a date. The same of lists.
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

    /// The server's certificate in force ends then, in seconds since 1970.
    pub(crate) fn certificate_ends(&self, at: i64) {
        if let Ok(gauge) = self.certificate_ends.get_metric_with_label_values::<&str>(&[]) {
            gauge.set(at);
        }
    }

    /// The first of the revocation lists in force is to be followed by its next one then; none: no list says when.
    pub(crate) fn list_ends(&self, at: Option<i64>) {
        set_or_remove(&self.list_ends, at);
    }

    /// The first of the tokens in force that have an end ends then; `None` if no token has an end.
    pub(crate) fn token_ends(&self, at: Option<i64>) {
        set_or_remove(&self.token_ends, at);
    }

    /// The file of this setting was looked at: whether it is of no use. Both of its series are there from then on.
    pub(crate) fn looked_at(&self, setting: &str, failing: bool) {
        if let Ok(gauge) = self.failing.get_metric_with_label_values(&[setting]) {
            gauge.set(i64::from(failing));
        }
        drop(self.read_again.get_metric_with_label_values(&[setting]));
    }

    /// What the file of this setting says now is in force.
    pub(crate) fn put_in_force(&self, setting: &str) {
        if let Ok(count) = self.read_again.get_metric_with_label_values(&[setting]) {
            count.inc();
        }
    }
}

/// The one series of a gauge, which is absent where there is nothing to tell.
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
