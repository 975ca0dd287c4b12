//! Calls that wait for another verdict. Every count is there from the start on, at zero.

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
    /// The wait was used up.
    Over,
    /// The server drains.
    Draining,
    /// There was no place, so that the call did not wait.
    NoPlace,
    /// The call was refused.
    Refused,
    /// The caller went away.
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

    /// That of a call with this last answer, which is not awaited.
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

/// See the module.
pub(crate) struct Waits {
    waiters: IntGauge,
    seconds: Vec<Histogram>,
}

impl Waits {
    pub(super) fn new(registry: &Registry) -> Result<Waits, Error> {
        let seconds = WAIT_SECONDS.histograms(registry)?;
        let of = |end: WaitEnd| seconds.get_metric_with_label_values(&[end.name()]);
        Ok(Waits {
            waiters: WAITERS.gauge(registry)?,
            seconds: WaitEnd::ALL.into_iter().map(of).collect::<Result<_, Error>>()?,
        })
    }

    /// A call begins to wait.
    pub(crate) fn begin(&self) -> Timed<'_> {
        self.waiters.inc();
        Timed { waits: self, began: Instant::now(), end: WaitEnd::Gone }
    }

    /// A wait ended like this, after this time.
    pub(crate) fn ended(&self, end: WaitEnd, after: Duration) {
        if let Some(seconds) = self.seconds.get(end as usize) {
            seconds.observe(after.as_secs_f64());
        }
    }
}

/// A call that waits, until this is dropped.
pub(crate) struct Timed<'a> {
    waits: &'a Waits,
    began: Instant,
    end: WaitEnd,
}

impl Timed<'_> {
    /// Its wait ends like this. Where nothing is said, its caller went away.
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
