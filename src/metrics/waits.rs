//! Counts of calls that wait for another verdict. Every count exists from the start on, at zero.

use std::time::{Duration, Instant};

use prometheus::{Error, Histogram, IntGauge, Registry};

use super::catalogue::{WAIT_SECONDS, WAITERS};
use crate::domain::{Answer, Reply, Verdict};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The Claim was granted.
    Granted,
    /// The verdict is one that no call waits for.
    Answered,
    /// The maximum wait was reached.
    Over,
    /// The server drains.
    Draining,
    /// All permits to wait were taken, so that the call did not wait.
    NoPlace,
    /// The call was refused.
    Refused,
    /// The client went away.
    Gone,
}

impl WaitEnd {
    const ALL: [WaitEnd; 7] = [
        WaitEnd::Granted,
        WaitEnd::Answered,
        WaitEnd::Over,
        WaitEnd::Draining,
        WaitEnd::NoPlace,
        WaitEnd::Refused,
        WaitEnd::Gone,
    ];

    /// How the wait of a call with this last answer ended.
    pub(crate) fn of(answer: &Answer) -> WaitEnd {
        match answer {
            Ok(Reply::Verdict(Verdict::Acquired { .. })) => WaitEnd::Granted,
            Ok(_) => WaitEnd::Answered,
            Err(_) => WaitEnd::Refused,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            WaitEnd::Granted => "granted",
            WaitEnd::Answered => "answered",
            WaitEnd::Over => "over",
            WaitEnd::Draining => "draining",
            WaitEnd::NoPlace => "no_place",
            WaitEnd::Refused => "refused",
            WaitEnd::Gone => "gone",
        }
    }
}

/// The counts of waiting calls.
pub(crate) struct WaitMetrics {
    waiters: IntGauge,
    seconds: Vec<Histogram>,
}

impl WaitMetrics {
    pub(super) fn new(registry: &Registry) -> Result<WaitMetrics, Error> {
        let seconds = WAIT_SECONDS.histograms(registry)?;
        let of = |end: WaitEnd| seconds.get_metric_with_label_values(&[end.name()]);
        Ok(WaitMetrics {
            waiters: WAITERS.gauge(registry)?,
            seconds: WaitEnd::ALL.into_iter().map(of).collect::<Result<_, Error>>()?,
        })
    }

    /// Counts the begin of a wait.
    pub(crate) fn begin(&self) -> Timed<'_> {
        self.waiters.inc();
        Timed { waits: self, began: Instant::now(), end: WaitEnd::Gone }
    }

    /// Counts the end of a wait, after this time.
    pub(crate) fn ended(&self, end: WaitEnd, after: Duration) {
        if let Some(seconds) = self.seconds.get(end as usize) {
            seconds.observe(after.as_secs_f64());
        }
    }
}

/// A call that waits, until this is dropped.
pub(crate) struct Timed<'a> {
    waits: &'a WaitMetrics,
    began: Instant,
    end: WaitEnd,
}

impl Timed<'_> {
    /// Sets how the wait ends. Without that, the client went away.
    pub(crate) fn ends(&mut self, end: WaitEnd) {
        self.end = end;
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.waits.waiters.dec();
        self.waits.ended(self.end, self.began.elapsed());
    }
}
