//! The runtime that the ledger uses: Tokio, except in the suite of interleavings, whose runtime controls each step.

#[cfg(all(test, feature = "shuttle"))]
pub(super) use super::interleavings::runtime::{
    Instant, Mutex, MutexGuard, call_clock, pause, sleep, sleep_until, spawn, timeout, timeout_at, yield_now,
};

#[cfg(not(all(test, feature = "shuttle")))]
pub(super) use {
    std::sync::{Mutex, MutexGuard},
    tokio::task::yield_now,
    tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

/// The clock of deadlines and of other instants that a call brings with it.
#[cfg(not(all(test, feature = "shuttle")))]
pub(super) fn call_clock() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Starts a task that the tracker waits for. Boxed: each other type of task would be compiled separately.
#[cfg(not(all(test, feature = "shuttle")))]
pub(super) fn spawn(tasks: &tokio_util::task::TaskTracker, task: impl Future<Output = ()> + Send + 'static) {
    let task: futures_util::future::BoxFuture<'static, ()> = Box::pin(task);
    tasks.spawn(task);
}

/// A sleep that always ends: what waits for it is work, not a clock.
#[cfg(not(all(test, feature = "shuttle")))]
pub(super) use tokio::time::sleep as pause;
