//! The runtime under which the suite runs the ledger: shuttle chooses the next task at each step, and
//! time passes only as the schedule decides.

use std::cell::Cell;
use std::ops::Add;
use std::pin::pin;
use std::sync::LazyLock;
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
    static STANDS_STILL: Cell<bool> = const { Cell::new(false) };
}

/// The instant of a call's clock at which the clock of the schedules stood at zero.
static START: LazyLock<tokio::time::Instant> = LazyLock::new(tokio::time::Instant::now);

/// From now on one of this number of timeouts fires, if it can; with zero none does.
pub(super) fn impatient(one_in: u32) {
    IMPATIENCE.set(one_in);
}

/// From now on time stands still, or goes on. While it stands still no sleep of a waiting call ends: only an event wakes it.
pub(super) fn time_stands_still(still: bool) {
    STANDS_STILL.set(still);
}

/// Time passes, and no task takes a step.
pub(super) fn pass(duration: Duration) {
    if !STANDS_STILL.get() {
        NOW.set(NOW.get() + duration);
    }
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
    pass(duration);
}

/// Always ends within the schedule.
pub(in crate::ledger) async fn pause(duration: Duration) {
    wander(3).await;
    yield_now().await;
    pass(duration);
}

/// A sleep of a call. Ends within the schedule, unless time stands still.
pub(in crate::ledger) async fn sleep_until(at: tokio::time::Instant) {
    let at = at.saturating_duration_since(*START);
    if STANDS_STILL.get() && at > NOW.get() {
        pending::<()>().await;
    }
    wander(3).await;
    yield_now().await;
    pass(at.saturating_sub(NOW.get()));
}

/// The clock of calls: that of the schedules.
pub(in crate::ledger) fn call_clock() -> tokio::time::Instant {
    *START + Instant::now().0
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
        pass(limit);
    };
    match select(pin!(future), pin!(over)).await {
        Either::Left((done, _)) => Ok(done),
        Either::Right(_) => Err(Elapsed),
    }
}

pub(in crate::ledger) async fn timeout_at<T>(
    at: tokio::time::Instant,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    timeout(at.saturating_duration_since(*START).saturating_sub(NOW.get()), future).await
}

/// Every other reading of the clock moves it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::ledger) struct Instant(Duration);

impl Instant {
    pub(in crate::ledger) fn now() -> Instant {
        if thread_rng().gen_bool(0.5) {
            pass(Duration::from_millis(50));
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
