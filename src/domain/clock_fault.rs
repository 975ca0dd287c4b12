//! The faults of the store's clock, and how calls are refused for them. See docs/contract.md, section 4.

use super::Reading;
use super::context::Context;
use super::reason::{Reason, Rejection};

/// A fault of the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClockFault {
    /// The clock shows an instant before the date of the release: it must be corrected, and no `token_offset`
    /// helps.
    BeforeRelease,
    /// The clock is behind what it showed before.
    Behind,
    /// The clock has jumped ahead.
    Ahead,
}

impl ClockFault {
    /// `None` if the clock is sound.
    pub(super) fn of(reading: &Reading) -> Option<ClockFault> {
        ClockFault::first(reading.before_release(), reading.behind(), reading.ahead())
    }

    /// `None` if the clock is sound.
    pub(super) fn of_context(context: &Context<'_>) -> Option<ClockFault> {
        ClockFault::behind(context).or(context.clock_ahead.then_some(ClockFault::Ahead))
    }

    /// Why no new token is safe; `None` if the clock is not behind.
    pub(super) fn behind(context: &Context<'_>) -> Option<ClockFault> {
        ClockFault::first(context.clock_before_release, context.clock_behind, false)
    }

    fn first(before_release: bool, behind: bool, ahead: bool) -> Option<ClockFault> {
        let before_release = before_release.then_some(ClockFault::BeforeRelease);
        let behind = behind.then_some(ClockFault::Behind);
        before_release.or(behind).or(ahead.then_some(ClockFault::Ahead))
    }

    /// The refusal of a call that the clock's fault does not allow, with what to do.
    pub(super) fn refusal(self) -> Rejection {
        match self {
            ClockFault::BeforeRelease => Rejection::new(
                Reason::StoreClockBehind,
                "the store's clock shows an instant before the date of this server's release, so no new token is safe; \
                 nothing was changed: set the clock right; calls are then served without a restart",
            ),
            ClockFault::Behind => Rejection::new(
                Reason::StoreClockBehind,
                "the store's clock runs behind what it showed before, so no new token is safe; nothing was changed: wait \
                 until it has caught up, set it right, or have an operator raise token_offset",
            ),
            ClockFault::Ahead => Rejection::new(
                Reason::StoreClockAhead,
                "the store's clock is more than a year ahead of what it showed before, so that leases and retentions \
                 would seem over; nothing was changed: set the clock right, or have an operator accept it \
                 (`migrate --accept-clock`)",
            ),
        }
    }
}

/// Why no entry may be made by this reading of the clock; `None` if the clock is sound.
#[must_use]
pub fn clock_refusal(reading: &Reading) -> Option<Rejection> {
    ClockFault::of(reading).map(ClockFault::refusal)
}
