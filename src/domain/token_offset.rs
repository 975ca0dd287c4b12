//! `token_offset`: what an operator adds to the store's clock where it is behind, so that tokens go on
//! growing.

use super::clock_fault::ClockFault;
use super::reason::{Reason, Rejection, Violation};
use super::{Reading, Span, TOKEN_MAX};

/// By how much one call may raise it: a typing mistake must not use up the tokens.
pub const TOKEN_OFFSET_STEP_MAX: Span = Span::from_days(366);
/// The highest value that it may ever have: a hundred years.
pub const TOKEN_OFFSET_MAX: Span = Span::from_days(36_500);
/// For how long the clock must be able to run before tokens reach [`TOKEN_MAX`].
const LEFT_MIN: Span = Span::from_days(3_650);

/// Decides whether the offset may be raised to `asked` at this reading of the clock and the present offset.
/// An offset never falls, so it is not raised where that does not help.
///
/// # Errors
/// `STORE_CLOCK_BEHIND` where the clock shows an instant before the date of the release, `VERSION_MISMATCH`
/// where the operator saw another offset, `INVALID_FIELD` where the new one is not higher, or is beyond a
/// bound.
pub fn raise_token_offset(reading: &Reading, expected: Span, asked: Span) -> Result<(), Rejection> {
    let (now, present) = (reading.now, Span(reading.token_offset));
    if reading.before_release() {
        return Err(ClockFault::BeforeRelease.refusal());
    }
    if expected != present {
        return Err(Rejection::new(
            Reason::VersionMismatch,
            format!(
                "token_offset is {} us, not the expected {} us: it was raised since; look at it again",
                present.micros(),
                expected.micros()
            ),
        ));
    }
    let step = asked.micros().saturating_sub(present.micros());
    let problem = if step <= 0 {
        format!(
            "is {} us, must be more than the present {} us: it only grows",
            asked.micros(),
            present.micros()
        )
    } else if step > TOKEN_OFFSET_STEP_MAX.micros() {
        "is more than 366 days above the present one, the most that one call may raise it".to_owned()
    } else if asked > TOKEN_OFFSET_MAX {
        "is more than 36500 days, the highest that it may ever be".to_owned()
    } else if (now + asked + LEFT_MIN).micros() > TOKEN_MAX {
        "would leave tokens for less than ten years: they must stay below 2^53".to_owned()
    } else {
        return Ok(());
    };
    Err(Rejection::invalid(vec![Violation { field: "token_offset".into(), description: problem }]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockLimits, StoreTime};

    const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

    fn refused(present: Span, expected: Span, asked: Span, now: StoreTime) -> Option<Reason> {
        let limits = ClockLimits { earliest: NOW, ..ClockLimits::NONE };
        let reading = Reading { now, token_offset: present.micros(), mark: 0, limits };
        raise_token_offset(&reading, expected, asked).err().map(|rejection| rejection.reason)
    }

    #[test]
    fn raise_accepts_only_growth_from_the_seen_offset_within_bounds() {
        let (day, step, max) = (Span::from_days(1), TOKEN_OFFSET_STEP_MAX, TOKEN_OFFSET_MAX);
        let below = Span(max.micros() - step.micros());
        let none = Span::ZERO;
        let late = StoreTime(TOKEN_MAX - LEFT_MIN.micros() - day.micros());
        for (present, expected, asked, now, reason) in [
            (none, none, Span(1), NOW, None),
            (none, none, step, NOW, None),
            (none, none, step + Span(1), NOW, Some(Reason::InvalidField)),
            (day, day, day, NOW, Some(Reason::InvalidField)),
            (day, day, Span(day.micros() - 1), NOW, Some(Reason::InvalidField)),
            (day, none, day + day, NOW, Some(Reason::VersionMismatch)),
            (none, day, day + day, NOW, Some(Reason::VersionMismatch)),
            (below, below, max, NOW, None),
            (max, max, max + Span(1), NOW, Some(Reason::InvalidField)),
            (none, none, day, late, None),
            (none, none, day + Span(1), late, Some(Reason::InvalidField)),
            (none, none, Span(i64::MAX), NOW, Some(Reason::InvalidField)),
            // Before the date of the release no offset helps.
            (none, none, day, NOW - Span(1), Some(Reason::StoreClockBehind)),
        ] {
            assert_eq!(refused(present, expected, asked, now), reason, "{present:?} {asked:?}");
        }
    }

    /// At the highest offset, tokens last for a hundred years from today.
    #[test]
    fn highest_offset_leaves_tokens() {
        assert!((NOW + TOKEN_OFFSET_MAX + Span::from_days(36_500)).micros() < TOKEN_MAX);
    }
}
