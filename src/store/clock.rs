//! The system's clock, for `SQLite`. Postgres uses the clock of the database.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::{ClockLimits, Span, StoreTime, TOKEN_OFFSET_STEP_MAX};

/// The day of this release: no correct clock shows an earlier one. Raised at each release (a test compares it with the
/// changelog): 2026-01-01.
pub const RELEASED: StoreTime = StoreTime(1_767_225_600_000_000);

/// How far a clock may be ahead of its mark: a year, and more than one step of `token_offset`, which moves both clock and mark.
const JUMP_MAX: Span = Span::from_days(367);
const _: () = assert!(JUMP_MAX.micros() > TOKEN_OFFSET_STEP_MAX.micros(), "an operator's step is not a jump");

/// The bounds on readings of stores' clocks.
pub const CLOCK_LIMITS: ClockLimits = ClockLimits { earliest: RELEASED, jump_max: JUMP_MAX };

/// A replaceable clock.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> StoreTime;

    /// The bounds on its readings. A clock of a test may show anything.
    fn limits(&self) -> ClockLimits {
        ClockLimits::NONE
    }
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one home of the system's clock")]
    fn now(&self) -> StoreTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        StoreTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn limits(&self) -> ClockLimits {
        CLOCK_LIMITS
    }
}
