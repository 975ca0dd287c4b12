//! How many calls a turn begins: fewer where turns are waited for, and the same for all connections. Were it fewer for those
//! alone that wait, then a connection would starve beside many that send just less than a turn.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many calls a turn is to begin: at first, and at the most.
pub(in crate::listener) const FIRST: usize = 16;
pub(in crate::listener) const MOST: usize = 128;
/// Where a turn is waited for longer, turns begin fewer calls. After a change it takes as long until the next one.
const WAIT: Duration = Duration::from_millis(10);
/// See the module.
pub(in crate::listener) struct Pace {
    calls: AtomicUsize,
    began: Instant,
    /// When it was last changed, in microseconds after it began.
    changed: AtomicU64,
}

impl Pace {
    pub(in crate::listener) fn new() -> Pace {
        Pace { calls: AtomicUsize::new(FIRST), began: Instant::now(), changed: AtomicU64::new(0) }
    }

    pub(in crate::listener) fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Somebody's turn came after this time.
    pub(in crate::listener) fn waited(&self, time: Duration) {
        self.waited_at(self.began.elapsed(), time);
    }

    fn waited_at(&self, now: Duration, time: Duration) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (now, changed) = (micros(now), self.changed.load(Ordering::Relaxed));
        // What was waited before the last change says nothing of it.
        let is_due = now >= changed.saturating_add(micros(WAIT));
        if is_due && self.changed.compare_exchange(changed, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let calls = self.calls();
            let calls = if time > WAIT { (calls / 2).max(1) } else { (calls * 2).min(MOST) };
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
    fn the_longer_turns_are_waited_for_the_fewer_calls_they_begin() {
        // When a turn came, in milliseconds, after how long; and how many calls turns begin from then on.
        let (pace, mut now) = (Pace::new(), 0);
        for (later, waited, calls) in [
            (10, SOON, 32),
            // It is too early to tell.
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
            (10, 0, MOST),
            (10, 0, MOST),
        ] {
            now += later;
            pace.waited_at(Duration::from_millis(now), Duration::from_millis(waited));
            assert_eq!(pace.calls(), calls, "at {now} ms");
        }
    }
}
