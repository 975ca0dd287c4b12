//! For how long a connection may live: it ends where it has had no call for long, and where it is old.

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::options::ConnectionLimits;
use crate::accounts::{ConnectionAccount, Open};
use crate::common::random;
use crate::metrics::Closed;

/// How often it is looked at within `idle_max` whether there was a call: a connection ends at most one such part late.
const LOOKS: u32 = 8;
/// A connection that was asked to end, and has no call, is closed after so long without a byte. Its client has that much
/// time to take note: a call that it sends meanwhile is carried out.
const SILENT: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    limits: ConnectionLimits,
    /// How long a call may take that is no stream.
    call_max: Duration,
}

impl Life {
    pub(super) fn new(limits: ConnectionLimits, call_max: Duration) -> Life {
        Life { limits, call_max }
    }

    /// Waits until a connection that begins now has to end.
    pub(super) async fn over(self, open: &Open) -> Closed {
        let began = Instant::now();
        let old_at = self.limits.age_max.map(|age| began + spread(age));
        let (mut quiet_since, mut calls) = (began, open.begun());
        loop {
            let look_at = self.limits.idle_max.map(|idle| Instant::now() + idle / LOOKS);
            match old_at.into_iter().chain(look_at).min() {
                Some(next) => sleep_until(next).await,
                None => pending().await,
            }
            let now = Instant::now();
            if old_at.is_some_and(|at| at <= now) {
                return Closed::Age;
            }
            let Some(idle_max) = self.limits.idle_max else { continue };
            if !open.is_none() || open.begun() != calls {
                (quiet_since, calls) = (now, open.begun());
            } else if now - quiet_since >= idle_max {
                return Closed::Idle;
            }
        }
    }

    /// Serves a connection on whose client was told to go. Its calls end by themselves; streams are ended by `leaving`,
    /// after a time of grace. What is open even then is nobody's call: a watch of health, an answer that nobody reads.
    pub(super) async fn leave(
        self,
        mut serving: Pin<&mut impl Future<Output = hyper::Result<()>>>,
        account: &ConnectionAccount,
        leaving: &CancellationToken,
    ) {
        for (time, streams_go_on) in [(self.limits.age_grace, true), (self.call_max + SILENT, false)] {
            if !streams_go_on {
                leaving.cancel();
            }
            if timeout(time, finished(serving.as_mut(), account, SILENT)).await.is_ok() {
                return;
            }
        }
        tracing::debug!("a connection that was told to go was closed with what was open on it");
    }
}

/// Serves a connection on that takes no more calls, until it ends or has none and nothing moves on it for so long.
pub(super) async fn finished(
    mut serving: Pin<&mut impl Future<Output = hyper::Result<()>>>,
    account: &ConnectionAccount,
    silent: Duration,
) {
    loop {
        let before = account.moved_bytes();
        match timeout(silent, serving.as_mut()).await {
            Ok(ended) => return log(ended),
            Err(_) if account.open().is_none() && account.moved_bytes() == before => {
                return tracing::debug!("a connection without a call stayed silent: closed");
            }
            Err(_) => {}
        }
    }
}

pub(super) fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// So long, give or take a tenth: connections that began together do not all come back together.
fn spread(time: Duration) -> Duration {
    const TENTHS: u32 = 1_000;
    time.mul_f64(0.9 + f64::from(random::below(TENTHS + 1)) / f64::from(5 * TENTHS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_a_tenth_at_the_most() {
        let ages: Vec<Duration> = (0..1_000).map(|_| spread(Duration::from_secs(100))).collect();
        let (least, most) = (ages.iter().min().copied(), ages.iter().max().copied());
        let within = |from, to| Duration::from_secs(from)..=Duration::from_secs(to);
        assert!(least.is_some_and(|age| within(90, 92).contains(&age)), "{least:?}");
        assert!(most.is_some_and(|age| within(108, 110).contains(&age)), "{most:?}");
    }
}
