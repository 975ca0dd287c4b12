//! The rate limit of a bulk operation: changes begin at least a `rate`th of a second apart. Time without a change, while the
//! operation waits for a place or its listener, allows no later burst, unlike in a token bucket.

use std::time::Duration;

use crate::ledger::runtime::Instant;

/// See the module.
pub(super) struct Pace {
    every: Duration,
    next_at: Instant,
}

impl Pace {
    /// `rate`: changes a second, at least 1.
    pub(super) fn new(rate: u32, now: Instant) -> Pace {
        Pace { every: Duration::from_secs(1) / rate, next_at: now }
    }

    /// How long the next change has to wait.
    pub(super) fn left(&self, now: Instant) -> Duration {
        self.next_at.saturating_duration_since(now)
    }

    /// A change begins now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.next_at = self.next_at.max(now) + self.every;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn changes_keep_their_distance_and_no_burst_follows_a_wait() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut pace = Pace::new(4, start);
        // When each change is ready to begin, and when it may.
        for (ready, begins) in
            [(0, 0), (1, 250), (250, 500), (900, 900), (901, 1_150), (5_000, 5_000), (5_010, 5_250)]
        {
            let left = pace.left(at(ready));
            assert_eq!(at(ready) + left, at(begins), "ready at {ready} ms");
            pace.begin(at(begins));
        }
    }
}
