//! The adaptive budget: how many calls one poll of a connection may begin. It shrinks while permits of the read scheduler are
//! waited for, and is the same for all connections. A budget that shrank only for the connections that wait starved
//! one connection next to a hundred that sent just less than a budget and reset their calls (`edge::floods`).
//!
//! Budgets count calls and not bytes: 512 bytes are seven small calls, and with 600 connections of 2,000 reset calls each,
//! every healthy call waited for 4,200 others at each of its steps. With one or two calls a poll it took 50 to 700 ms.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Calls that one poll may begin: initial and maximum budget.
pub(in crate::listener) const CALLS_FIRST: usize = 16;
pub(in crate::listener) const CALLS_MAX: usize = 128;
/// Target wait for a read permit. The budget is halved while permits are waited for longer, and doubled otherwise, at most
/// once in this time.
const TARGET_WAIT: Duration = Duration::from_millis(10);

/// See the module.
pub(in crate::listener) struct AdaptiveBudget {
    calls: AtomicUsize,
    began: Instant,
    /// When it was last changed, in microseconds after it began.
    changed: AtomicU64,
}

impl AdaptiveBudget {
    pub(in crate::listener) fn new() -> AdaptiveBudget {
        AdaptiveBudget {
            calls: AtomicUsize::new(CALLS_FIRST),
            began: Instant::now(),
            changed: AtomicU64::new(0),
        }
    }

    pub(in crate::listener) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Notes that a connection waited this long for its read permit.
    pub(in crate::listener) fn waited(&self, time: Duration) {
        self.waited_at(self.began.elapsed(), time);
    }

    fn waited_at(&self, now: Duration, time: Duration) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (now, changed) = (micros(now), self.changed.load(Ordering::Relaxed));
        // A wait before the last change is not a measure of the new budget.
        let is_due = now >= changed.saturating_add(micros(TARGET_WAIT));
        if is_due && self.changed.compare_exchange(changed, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let calls = self.calls();
            let calls = if time > TARGET_WAIT { (calls / 2).max(1) } else { (calls * 2).min(CALLS_MAX) };
            self.calls.store(calls, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: u64 = 10;
    const LATE: u64 = 11;

    #[test]
    fn longer_waits_for_permits_shrink_the_budget() {
        // When a permit was granted, in milliseconds, and after which wait; and the budget from then on.
        let (budget, mut now) = (AdaptiveBudget::new(), 0);
        for (later, waited, calls) in [
            (10, SOON, 32),
            // Too early for another change.
            (9, LATE, 32),
            (1, LATE, 16),
            (0, LATE, 16),
            (10, LATE, 8),
            (50, LATE, 4),
            (10, LATE, 2),
            (10, LATE, 1),
            (10, LATE, 1),
            (10, SOON, 2),
            (10, 0, 4),
            (10, 0, 8),
            (10, 0, 16),
            (10, 0, 32),
            (10, 0, 64),
            (10, 0, CALLS_MAX),
            (10, 0, CALLS_MAX),
        ] {
            now += later;
            budget.waited_at(Duration::from_millis(now), Duration::from_millis(waited));
            assert_eq!(budget.calls(), calls, "at {now} ms");
        }
    }
}
