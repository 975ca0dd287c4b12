//! When calls begin: as soon as the previous one is answered (closed loop), or at instants that are fixed in
//! advance (open loop).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// Instants that are closer together than this are released together: each wake-up costs more.
const WAKE_EVERY: Duration = Duration::from_micros(200);
/// Short, so that a stop is noticed soon.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// When calls begin.
#[derive(Clone, Debug)]
pub(super) enum CallPacing {
    /// Closed loop: as soon as a virtual client is free.
    Closed,
    /// Open loop, at fixed instants: a slow answer delays no later call, and the latency of a call that has
    /// to wait for a free virtual client counts from its instant (no coordinated omission).
    Open(Arc<Schedule>),
}

impl CallPacing {
    /// When the first call should begin. A busy machine may not get to it before the end: calls without a
    /// rate are made at least one time, so that there is a result.
    pub(super) async fn first(&self) -> Option<Instant> {
        match self {
            CallPacing::Closed => Some(Instant::now()),
            CallPacing::Open(schedule) => schedule.next().await,
        }
    }

    /// When the next call should begin; never before that instant. `None` at the end.
    pub(super) async fn next(&self, end: Instant) -> Option<Instant> {
        match self {
            CallPacing::Closed => Some(Instant::now()).filter(|now| *now < end),
            CallPacing::Open(schedule) => schedule.next().await,
        }
    }
}

/// Instants at equal distances.
#[derive(Debug)]
pub(super) struct Schedule {
    began: Instant,
    every: Duration,
    taken: AtomicU64,
    /// The instants that have passed.
    due: Semaphore,
}

impl Schedule {
    async fn next(&self) -> Option<Instant> {
        self.due.acquire().await.ok()?.forget();
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        Some(self.began + self.instant(number))
    }

    fn instant(&self, number: u64) -> Duration {
        let nanos = self.every.as_nanos().saturating_mul(u128::from(number));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The number of instants within this time.
    fn come(&self, within: Duration) -> u64 {
        u64::try_from(within.as_nanos() / self.every.as_nanos().max(1)).unwrap_or(u64::MAX).saturating_add(1)
    }
}

/// Releases the instants, on a separate thread: the runtime's timers have a resolution of 1 ms only.
#[derive(Debug)]
pub(super) struct Pacer {
    schedule: Arc<Schedule>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Pacer {
    /// From now on, until `end`.
    pub(super) fn start(every: Duration, end: Instant) -> Pacer {
        let schedule =
            Schedule { began: Instant::now(), every, taken: AtomicU64::new(0), due: Semaphore::new(0) };
        let (schedule, stop) = (Arc::new(schedule), Arc::new(AtomicBool::new(false)));
        let (on_it, until) = (Arc::clone(&schedule), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            let mut out = 0;
            while !until.load(Ordering::Relaxed) {
                let now = Instant::now().min(end);
                let due = on_it.come(now - on_it.began);
                on_it.due.add_permits(usize::try_from(due - out).unwrap_or(0));
                out = due;
                if now >= end {
                    break;
                }
                let wait = (on_it.began + on_it.instant(due)).saturating_duration_since(now);
                thread::sleep(wait.clamp(WAKE_EVERY, SLEEP_MAX).min(end - now));
            }
            on_it.due.close();
            out
        });
        Pacer { schedule, stop, thread: Some(thread) }
    }

    pub(super) fn pace(&self) -> CallPacing {
        CallPacing::Open(Arc::clone(&self.schedule))
    }

    /// The number of calls that should have begun and never did, since all calls that may be in flight were.
    pub(super) fn missed(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let out = self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0);
        out.saturating_sub(self.schedule.taken.load(Ordering::Relaxed))
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn open_loop_calls_begin_at_their_instants() {
        // The pacer ends with the test: a busy machine has the time that it needs.
        let end = Instant::now() + Duration::from_mins(10);
        let pacer = Pacer::start(Duration::from_millis(2), end);
        let (pace, mut begun) = (pacer.pace(), Vec::new());
        while begun.len() < 40 {
            let at = pace.next(end).await.unwrap();
            assert!(at <= Instant::now());
            begun.push(at);
            if begun.len() == 10 {
                // A slow answer: the calls that were due meanwhile count from their instants.
                tokio::time::sleep(Duration::from_millis(30)).await;
            }
        }
        for (one, next) in begun.iter().zip(&begun[1..]) {
            assert_eq!(*next - *one, Duration::from_millis(2));
        }
        // All that were due and have not begun: at the instant of the last one, and some of after that.
        let (schedule, missed) = (Arc::clone(&pacer.schedule), pacer.missed());
        let due = schedule.come(schedule.began.elapsed());
        assert!(missed < due, "{missed} missed of {due}");
    }

    #[tokio::test]
    async fn instants_without_a_free_client_are_missed() {
        let end = Instant::now() + Duration::from_millis(20);
        let pacer = Pacer::start(Duration::from_micros(10), end);
        while pacer.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(pacer.pace().next(end).await.is_none(), "the time is over");
        // It began a moment after its end was fixed.
        let due = pacer.schedule.come(end.saturating_duration_since(pacer.schedule.began));
        assert_eq!(pacer.missed(), due);
    }

    #[tokio::test]
    async fn closed_loop_calls_begin_immediately_until_the_end() {
        let now = Instant::now();
        assert!(CallPacing::Closed.next(now + Duration::from_secs(9)).await.is_some_and(|at| at >= now));
        assert!(CallPacing::Closed.next(now).await.is_none());
        assert!(CallPacing::Closed.first().await.is_some(), "however late");
    }
}
