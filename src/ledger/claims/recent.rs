//! The store's clock, as it was read last.

use std::sync::PoisonError;
use std::time::Duration;

use crate::domain::{Reading, StoreTime};
use crate::ledger::runtime::{Instant, Mutex};

/// A recent reading of the store's clock: good enough to choose a guess, never to decide.
#[derive(Debug, Default)]
pub(crate) struct RecentClock(Mutex<Option<(StoreTime, Instant)>>);

/// An older reading is none.
const RECENT: Duration = Duration::from_mins(1);

impl RecentClock {
    pub(crate) fn note(&self, reading: &Reading) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((reading.now, Instant::now()));
    }

    pub(crate) fn now(&self) -> Option<StoreTime> {
        let noted = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.filter(|(_, at)| at.elapsed() < RECENT).map(|(now, _)| now)
    }
}
