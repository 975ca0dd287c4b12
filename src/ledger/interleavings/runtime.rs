//! The runtime under which the suite runs the ledger: shuttle chooses the next task at each step, and
//! time passes only as the schedule decides.

use std::cell::Cell;
use std::ops::Add;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, pending, select};
pub(in crate::ledger) use shuttle::future::yield_now;
use shuttle::rand::{Rng as _, thread_rng};
pub(in crate::ledger) use shuttle::sync::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;

thread_local! {
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    /// One of this number of statements is given up before its answer; zero: none.
    static IMPATIENCE: Cell<u32> = const { Cell::new(0) };
}

/// From now on one of this number of timeouts fires, if it can; with zero none does.
pub(super) fn impatient(one_in: u32) {
    IMPATIENCE.set(one_in);
}

/// Lets other tasks take up to this number of steps.
pub(super) async fn wander(most: u32) {
    for _ in 0..thread_rng().gen_range(0..=most) {
        yield_now().await;
    }
}

pub(in crate::ledger) fn spawn(tasks: &TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
    drop(shuttle::future::spawn(tasks.track_future(task)));
}

/// Every other sleep of a second or more is longer than the schedule. Otherwise tasks that only sleep and wake would take most
/// of the steps, and hide a deadlock.
pub(in crate::ledger) async fn sleep(duration: Duration) {
    if duration >= Duration::from_secs(1) && thread_rng().gen_bool(0.5) {
        pending::<()>().await;
    }
    wander(3).await;
    yield_now().await;
    NOW.set(NOW.get() + duration);
}

/// Always ends within the schedule.
pub(in crate::ledger) async fn pause(duration: Duration) {
    wander(3).await;
    yield_now().await;
    NOW.set(NOW.get() + duration);
}

/// A timeout fired.
#[derive(Debug)]
pub(in crate::ledger) struct Elapsed;

pub(in crate::ledger) async fn timeout<T>(
    limit: Duration,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let one_in = IMPATIENCE.get();
    let fires = one_in > 0 && thread_rng().gen_ratio(1, one_in);
    let over = async {
        if !fires {
            pending::<()>().await;
        }
        wander(6).await;
        NOW.set(NOW.get() + limit);
    };
    match select(pin!(future), pin!(over)).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(Elapsed),
    }
}

/// Every other reading of the clock moves it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ledger) struct Instant(Duration);

impl Instant {
    pub(in crate::ledger) fn now() -> Instant {
        if thread_rng().gen_bool(0.5) {
            NOW.set(NOW.get() + Duration::from_millis(50));
        }
        Instant(NOW.get())
    }

    pub(in crate::ledger) fn saturating_duration_since(&self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(in crate::ledger) fn checked_sub(&self, duration: Duration) -> Option<Instant> {
        self.0.checked_sub(duration).map(Instant)
    }

    pub(in crate::ledger) fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(*self)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + duration)
    }
}
