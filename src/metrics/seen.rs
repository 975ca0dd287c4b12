//! When something was last counted.

use std::sync::atomic::{AtomicU32, Ordering};

/// The minute in which something was last counted. Only minutes with a scrape are numbered, from the start
/// on.
#[derive(Default)]
pub(super) struct Seen(AtomicU32);

impl Seen {
    /// A call that read an older minute may be counted later: the newest minute stays.
    pub(super) fn now(&self, minute: u32) {
        if self.0.load(Ordering::Relaxed) < minute {
            self.0.fetch_max(minute, Ordering::Relaxed);
        }
    }

    pub(super) fn minute(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn before(&self, minute: u32) -> bool {
        self.minute() < minute
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_minute_stays() {
        let seen = Seen::default();
        for (counted_in, newest) in [(1, 1), (5, 5), (4, 5), (6, 6)] {
            seen.now(counted_in);
            assert_eq!(seen.minute(), newest, "after {counted_in}");
        }
    }
}
