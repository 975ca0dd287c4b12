//! When something was last counted.

use std::sync::atomic::{AtomicU32, Ordering};

/// The minute in which something was last counted. Only minutes with a scrape are numbered, from the start
/// on.
#[derive(Default)]
pub(super) struct Seen(AtomicU32);

impl Seen {
    pub(super) fn now(&self, minute: u32) {
        if self.0.load(Ordering::Relaxed) != minute {
            self.0.store(minute, Ordering::Relaxed);
        }
    }

    pub(super) fn minute(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn before(&self, minute: u32) -> bool {
        self.minute() < minute
    }
}
