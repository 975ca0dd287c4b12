//! Counts of the limits at the edge: connections that the server ended, calls beyond a limit of their
//! principal. Every count exists from the start on, at zero.

use prometheus::{Error, IntCounter, IntCounterVec, Registry};

use super::catalogue::{CLOSED, LIMITED, SERVER_FULL, STREAMS_ENDED};

/// Why the server ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Its address had the maximum number of connections.
    PerAddress,
    /// It was not established in time.
    Opening,
    /// It had no call for too long.
    Idle,
    /// It reached its maximum age.
    Age,
    /// Nothing moved on it though bytes waited, or too many of its streams made no progress.
    Stalled,
    /// It had no whole request while all places of `observe_listen` were taken.
    Observe,
}

/// Why the server ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its request did not arrive in time.
    RequestStalled,
    /// Its answer was not read in time.
    AnswerStalled,
    /// Its principal or its connection had too many bytes of answers.
    Share,
    /// All clients together had too many bytes, and its principal most of them.
    Full,
}

/// The limit that all clients together reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Bytes of requests.
    RequestBytes,
    /// Bytes of unread answers.
    AnswerBytes,
}

/// The limit of a principal that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    /// Calls in progress.
    Calls,
    /// Calls per second (rate limit).
    Rate,
    /// Bytes of requests in progress.
    Bytes,
}

/// The counts of limits.
pub(super) struct Limits {
    closed: [IntCounter; 6],
    limited: [IntCounter; 3],
    ended: [IntCounter; 4],
    full: [IntCounter; 2],
}

impl Limits {
    pub(super) fn new(registry: &Registry) -> Result<Limits, Error> {
        let closed = CLOSED.counters(registry)?;
        let limited = LIMITED.counters(registry)?;
        let (ended, full) = (STREAMS_ENDED.counters(registry)?, SERVER_FULL.counters(registry)?);
        let one = |counts: &IntCounterVec, label| counts.get_metric_with_label_values(&[label]);
        Ok(Limits {
            closed: [
                one(&closed, "per_address")?,
                one(&closed, "opening")?,
                one(&closed, "idle")?,
                one(&closed, "age")?,
                one(&closed, "stalled")?,
                one(&closed, "observe")?,
            ],
            limited: [one(&limited, "calls")?, one(&limited, "rate")?, one(&limited, "bytes")?],
            ended: [
                one(&ended, "request_stalled")?,
                one(&ended, "answer_stalled")?,
                one(&ended, "share")?,
                one(&ended, "full")?,
            ],
            full: [one(&full, "request_bytes")?, one(&full, "answer_bytes")?],
        })
    }

    pub(super) fn closed(&self, why: Closed) {
        let [per_address, opening, idle, age, stalled, observe] = &self.closed;
        match why {
            Closed::PerAddress => per_address.inc(),
            Closed::Opening => opening.inc(),
            Closed::Idle => idle.inc(),
            Closed::Age => age.inc(),
            Closed::Stalled => stalled.inc(),
            Closed::Observe => observe.inc(),
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

    pub(super) fn ended(&self, why: Ended) {
        let [request_stalled, answer_stalled, share, full] = &self.ended;
        match why {
            Ended::RequestStalled => request_stalled.inc(),
            Ended::AnswerStalled => answer_stalled.inc(),
            Ended::Share => share.inc(),
            Ended::Full => full.inc(),
        }
    }

    pub(super) fn full(&self, of: Full) {
        let [request_bytes, answer_bytes] = &self.full;
        match of {
            Full::RequestBytes => request_bytes.inc(),
            Full::AnswerBytes => answer_bytes.inc(),
        }
    }
}
