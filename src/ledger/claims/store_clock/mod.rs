//! The store's clock, as it was last read.

pub(in crate::ledger) mod last_response;

use std::sync::PoisonError;
use std::time::Duration;

use crate::domain::{Reading, Span, StoreTime};
use crate::ledger::runtime::{Instant, Mutex};

/// A recent reading of the store's clock: good enough to choose the optimistic path, and to answer by a
/// replay run alone; nothing is written by it.
#[derive(Debug, Default)]
pub(crate) struct RecentClock(Mutex<Option<(Reading, Instant)>>);

/// Older readings are not used.
const RECENT: Duration = Duration::from_mins(1);

impl RecentClock {
    pub(crate) fn note(&self, reading: &Reading) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((*reading, Instant::now()));
    }

    pub(crate) fn now(&self) -> Option<StoreTime> {
        self.noted().map(|(reading, _)| reading.now)
    }

    /// An estimate of the clock's current time.
    pub(crate) fn by_now(&self) -> Option<StoreTime> {
        self.noted().map(|(reading, age)| reading.now + Span::from_std(age))
    }

    /// An estimate of the token that the clock would give now.
    pub(crate) fn token_clock(&self) -> Option<i64> {
        let since = |age: Duration| Span::from_std(age).micros();
        self.noted().map(|(reading, age)| reading.token_clock().saturating_add(since(age)))
    }

    /// The reading, and its age.
    fn noted(&self) -> Option<(Reading, Duration)> {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.map(|(reading, at)| (reading, at.elapsed())).filter(|(_, age)| *age < RECENT)
    }
}
