//! The store's clock, as it was read last.

pub(in crate::ledger) mod last_response;

use std::sync::PoisonError;
use std::time::Duration;

use crate::domain::{Reading, Span, StoreTime};
use crate::ledger::runtime::{Instant, Mutex};

/// A recent reading of the store's clock: good enough to choose a guess, never to decide.
#[derive(Debug, Default)]
pub(crate) struct RecentClock(Mutex<Option<(Reading, Instant)>>);

/// An older reading is none.
const RECENT: Duration = Duration::from_mins(1);

impl RecentClock {
    pub(crate) fn note(&self, reading: &Reading) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((*reading, Instant::now()));
    }

    pub(crate) fn now(&self) -> Option<StoreTime> {
        self.noted().map(|(reading, _)| reading.now)
    }

    /// About what the clock stands at by now.
    pub(crate) fn by_now(&self) -> Option<StoreTime> {
        self.noted().map(|(reading, age)| reading.now + Span::from_std(age))
    }

    /// About what the clock would make a token of by now.
    pub(crate) fn token_clock(&self) -> Option<i64> {
        let since = |age: Duration| Span::from_std(age).micros();
        self.noted().map(|(reading, age)| reading.token_clock().saturating_add(since(age)))
    }

    /// The reading, and how old it is.
    fn noted(&self) -> Option<(Reading, Duration)> {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.map(|(reading, at)| (reading, at.elapsed())).filter(|(_, age)| *age < RECENT)
    }
}
