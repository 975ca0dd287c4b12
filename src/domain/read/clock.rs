//! The store's clock, as it was read.

use crate::domain::StoreTime;

/// A reading of the store's clock.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The clock.
    pub now: StoreTime,
    /// The operator's number that is added to the clock for tokens.
    pub token_offset: i64,
    /// The highest reading of clock + offset known before this one.
    pub mark: i64,
}

impl Reading {
    /// Clock + offset: what a token of now is made of.
    #[must_use]
    pub fn token_clock(&self) -> i64 {
        self.now.micros().saturating_add(self.token_offset)
    }

    /// The clock ran backwards.
    #[must_use]
    pub fn behind(&self) -> bool {
        self.token_clock() < self.mark
    }
}
