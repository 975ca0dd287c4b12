//! What the limits at the edge did: connections that the server ended, calls that were too many for their principal.
//! Every count is there from the start on, at zero.

use prometheus::{Error, IntCounter, IntCounterVec, Registry};

use super::catalogue::{CLOSED, LIMITED};

/// Why the server ended a connection by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its address had as many as it may have.
    PerAddress,
    /// It did not begin within its time.
    Opening,
    /// It had no call for too long.
    Idle,
    /// It was open for too long.
    Age,
    /// It left too much of its answers unread.
    Unread,
}

/// Which limit of a principal was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Calls under way.
    Calls,
    /// Calls within a second.
    Rate,
    /// Bytes of requests under way.
    Bytes,
}

/// See the module.
pub(super) struct Limits {
    closed: [IntCounter; 5],
    limited: [IntCounter; 3],
}

impl Limits {
    pub(super) fn new(registry: &Registry) -> Result<Limits, Error> {
        let closed = CLOSED.counters(registry)?;
        let limited = LIMITED.counters(registry)?;
        let one = |counts: &IntCounterVec, label| counts.get_metric_with_label_values(&[label]);
        Ok(Limits {
            closed: [
                one(&closed, "per_address")?,
                one(&closed, "opening")?,
                one(&closed, "idle")?,
                one(&closed, "age")?,
                one(&closed, "unread")?,
            ],
            limited: [one(&limited, "calls")?, one(&limited, "rate")?, one(&limited, "bytes")?],
        })
    }

    pub(super) fn closed(&self, why: Closed) {
        let [per_address, opening, idle, age, unread] = &self.closed;
        match why {
            Closed::PerAddress => per_address.inc(),
            Closed::Opening => opening.inc(),
            Closed::Idle => idle.inc(),
            Closed::Age => age.inc(),
            Closed::Unread => unread.inc(),
        }
    }

    pub(super) fn limited(&self, limit: Limited) {
        let [calls, rate, bytes] = &self.limited;
        match limit {
            Limited::Calls => calls.inc(),
            Limited::Rate => rate.inc(),
            Limited::Bytes => bytes.inc(),
        }
    }
}
