//! The lifetime of a connection: it ends after `connection_idle_max` without a call, and after `connection_age_max`.
//!
//! Without an age a client that connects once stays with its replica for ever, and without an idle limit a client that is
//! gone keeps its permit. So the server sends GOAWAY; streams end after a separate grace period, so that they can be resumed
//! (`tests/it/edge/life`).

use std::future::{Future, pending};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::options::ConnectionLimits;
use crate::accounts::{ConnectionAccount, OpenCalls};
use crate::common::random;
use crate::metrics::Closed;

/// Number of checks for a call within `idle_max`: an idle connection ends at most one such part late.
const IDLE_CHECKS: u32 = 8;
/// A connection after GOAWAY, without a call, is closed after this long without a byte. Its client has this much time to
/// notice: a call that it sends meanwhile is carried out.
const SILENT_MAX: Duration = Duration::from_secs(10);
/// How far the age at which a connection ends is from `age_max` at most, as a share of it.
const JITTER: f64 = 0.1;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    limits: ConnectionLimits,
    /// How long a call may take that is not a stream.
    call_max: Duration,
}

impl Lifetime {
    pub(super) fn new(limits: ConnectionLimits, call_max: Duration) -> Lifetime {
        Lifetime { limits, call_max }
    }

    /// Waits until a connection that begins now must end.
    pub(super) async fn expired(self, open: &OpenCalls) -> Closed {
        let began = Instant::now();
        let old_at = self.limits.age_max.map(|age| began + spread(age));
        let (mut quiet_since, mut calls) = (began, open.begun());
        loop {
            let look_at = self.limits.idle_max.map(|idle| Instant::now() + idle / IDLE_CHECKS);
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

    /// Serves a connection after GOAWAY. Its calls end by themselves, and `leaving` ends its streams after the grace period.
    /// Only health watches and unread answers are open even then: the connection is closed with them.
    pub(super) async fn drain(
        self,
        mut serving: Pin<&mut impl Future<Output = hyper::Result<()>>>,
        account: &ConnectionAccount,
        leaving: &CancellationToken,
    ) {
        for (time, streams_go_on) in [(self.limits.age_grace, true), (self.call_max + SILENT_MAX, false)] {
            if !streams_go_on {
                leaving.cancel();
            }
            if timeout(time, finished(serving.as_mut(), account, SILENT_MAX)).await.is_ok() {
                return;
            }
        }
        tracing::debug!("a connection was closed after it was asked to end, with calls that were still open");
    }
}

/// Serves a connection that accepts no more calls, until it ends, or has no call and no byte has moved for this long.
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

/// The duration with jitter, so that connections which began together do not all reconnect together.
fn spread(time: Duration) -> Duration {
    const STEPS: u32 = 1_000;
    let share = f64::from(random::below(STEPS + 1)) / f64::from(STEPS);
    time.mul_f64(1.0 - JITTER + 2.0 * JITTER * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_at_most_a_tenth() {
        let ages: Vec<Duration> = (0..1_000).map(|_| spread(Duration::from_secs(100))).collect();
        let (least, most) = (ages.iter().min().copied(), ages.iter().max().copied());
        let within = |from, to| Duration::from_secs(from)..=Duration::from_secs(to);
        assert!(least.is_some_and(|age| within(90, 92).contains(&age)), "{least:?}");
        assert!(most.is_some_and(|age| within(108, 110).contains(&age)), "{most:?}");
    }
}
