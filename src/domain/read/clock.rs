//! Readings of the store's clock.

use crate::{Span, StoreTime, TOKEN_MAX};

/// A reading of the store's clock.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The clock.
    pub now: StoreTime,
    /// The operator's number that is added to the clock for tokens.
    pub token_offset: i64,
    /// The highest reading of clock + offset known before this one; 0 if there was none.
    pub mark: i64,
    /// The bounds of a sound reading.
    pub limits: ClockLimits,
}

/// The bounds of a sound reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockLimits {
    /// The earliest instant that is possible.
    pub earliest: StoreTime,
    /// The farthest that a reading may be ahead of the mark.
    pub jump_max: Span,
}

impl ClockLimits {
    /// No limits: for the clocks of tests.
    pub const NONE: ClockLimits = ClockLimits { earliest: StoreTime(i64::MIN), jump_max: Span(i64::MAX) };
}

/// How far below the highest token the clock must stay, so that every grant of a batch gets a token.
const ROOM: i64 = 1_000_000;
/// The highest reading of clock + offset from which tokens are made.
pub const TOKEN_CLOCK_MAX: i64 = TOKEN_MAX - ROOM;

impl Reading {
    /// Clock + offset: the number from which a token is made now.
    #[must_use]
    pub fn token_clock(&self) -> i64 {
        self.now.micros().saturating_add(self.token_offset)
    }

    /// The clock runs behind its mark, or behind the earliest instant that is possible.
    #[must_use]
    pub fn behind(&self) -> bool {
        self.behind_by() > 0
    }

    /// The clock shows an instant before the earliest one that is possible: no `token_offset` makes it right.
    #[must_use]
    pub fn before_release(&self) -> bool {
        self.now < self.limits.earliest
    }

    /// By how many microseconds the clock is behind; zero or below if it is not.
    #[must_use]
    pub fn behind_by(&self) -> i64 {
        let behind_mark = self.mark.saturating_sub(self.token_clock());
        behind_mark.max(self.limits.earliest.micros().saturating_sub(self.now.micros()))
    }

    /// The clock has jumped ahead: it is further ahead of its mark than a correct clock can be, or so far
    /// that no tokens are left.
    #[must_use]
    pub fn ahead(&self) -> bool {
        self.ahead_by() > 0
    }

    /// How many microseconds the clock is ahead of its mark if it has jumped, else 0.
    #[must_use]
    pub fn ahead_by(&self) -> i64 {
        let by = self.token_clock().saturating_sub(self.mark);
        let jumped = self.mark > 0 && by > self.limits.jump_max.micros();
        if jumped || self.token_clock() > TOKEN_CLOCK_MAX { by } else { 0 }
    }

    /// Whether new tokens may be made of this reading, and whether it may become the mark.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        !self.behind() && !self.ahead()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_is_sound_between_its_limits() {
        const DAY: i64 = 86_400_000_000;
        let limits = ClockLimits { earliest: StoreTime(1_000 * DAY), jump_max: Span(367 * DAY) };
        for (now, offset, mark, limits, behind, ahead) in [
            (1_000 * DAY, 0, 0, limits, false, false),
            (1_000 * DAY - 1, 0, 0, limits, true, false),
            // No offset corrects a clock that is too early.
            (1_000 * DAY - 1, DAY, 0, limits, true, false),
            (1_500 * DAY, 0, 1_500 * DAY + 1, limits, true, false),
            (1_500 * DAY, 1, 1_500 * DAY + 1, limits, false, false),
            // A new ledger does not know what its clock showed before.
            (9_000 * DAY, 0, 0, limits, false, false),
            (1_867 * DAY, 0, 1_500 * DAY, limits, false, false),
            (1_867 * DAY + 1, 0, 1_500 * DAY, limits, false, true),
            (1_867 * DAY, 1, 1_500 * DAY, limits, false, true),
            (1, 0, 0, ClockLimits::NONE, false, false),
            (9_000 * DAY, 0, 1, ClockLimits::NONE, false, false),
            (TOKEN_MAX - 1_000_000, 0, 0, ClockLimits::NONE, false, false),
            (TOKEN_MAX - 1_000_000, 1, 0, ClockLimits::NONE, false, true),
            (TOKEN_CLOCK_MAX, 0, 0, ClockLimits::NONE, false, false),
            (TOKEN_CLOCK_MAX, 1, 0, ClockLimits::NONE, false, true),
        ] {
            let reading = Reading { now: StoreTime(now), token_offset: offset, mark, limits };
            let is = (reading.behind(), reading.ahead(), reading.is_sound());
            assert_eq!(is, (behind, ahead, !behind && !ahead), "{reading:?}");
        }
    }
}
