//! Instants and durations of the store's clock, in microseconds.

use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant of the store's clock: microseconds since the Unix epoch. No other clock decides
/// anything. Arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreTime(pub i64);

/// A duration in microseconds. Arithmetic saturates.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Span(pub i64);

impl StoreTime {
    /// Later than any reading.
    pub const MAX: StoreTime = StoreTime(i64::MAX);

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// What remains from `now` until this instant; zero once it has passed.
    #[must_use]
    pub fn remaining(self, now: StoreTime) -> Span {
        (self - now).max(Span::ZERO)
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);

    /// A whole number of seconds.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Span {
        Span(secs.saturating_mul(1_000_000))
    }

    /// A whole number of milliseconds.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Span {
        Span(millis.saturating_mul(1_000))
    }

    /// A whole number of days.
    #[must_use]
    pub const fn from_days(days: i64) -> Span {
        Span::from_secs(days.saturating_mul(86_400))
    }

    /// Microseconds.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// As a standard duration; negative spans become zero.
    #[must_use]
    pub fn to_std(self) -> Duration {
        Duration::from_micros(u64::try_from(self.0).unwrap_or(0))
    }

    /// From a standard duration, saturating.
    #[must_use]
    pub fn from_std(duration: Duration) -> Span {
        Span(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
    }
}

impl Add<Span> for StoreTime {
    type Output = StoreTime;
    fn add(self, span: Span) -> StoreTime {
        StoreTime(self.0.saturating_add(span.0))
    }
}

impl Sub<Span> for StoreTime {
    type Output = StoreTime;
    fn sub(self, span: Span) -> StoreTime {
        StoreTime(self.0.saturating_sub(span.0))
    }
}

impl Sub for StoreTime {
    type Output = Span;
    fn sub(self, other: StoreTime) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_converted_within_the_bounds_of_both_types() {
        for (span, duration) in [
            (Span(0), Duration::ZERO),
            (Span::from_millis(1_500), Duration::from_millis(1_500)),
            (Span(i64::MAX), Duration::from_micros(i64::MAX.unsigned_abs())),
        ] {
            assert_eq!((span.to_std(), Span::from_std(duration)), (duration, span));
        }
        assert_eq!(Span(-1).to_std(), Duration::ZERO);
        assert_eq!(Span::from_std(Duration::MAX), Span(i64::MAX));
        assert_eq!(Span::from_std(Duration::from_nanos(1_999)), Span(1));
    }
}
