//! Since when claims and settlements wait for an answer of the store: what the health of this server shows
//! besides its own heartbeat, which has a connection of its own.

use std::sync::PoisonError;
use std::time::Duration;

use crate::ledger::runtime::{Instant, Mutex};

/// The oldest statement since which no session was answered.
#[derive(Debug, Default)]
pub(crate) struct Pulse(Mutex<Option<Instant>>);

impl Pulse {
    /// A statement was sent.
    pub(super) fn sent(&self) {
        self.since().get_or_insert_with(Instant::now);
    }

    /// Some session was answered, whatever the answer was.
    pub(super) fn answered(&self) {
        *self.since() = None;
    }

    /// For how long nobody has been answered, although somebody waits.
    pub(crate) fn unanswered_for(&self) -> Duration {
        let since = *self.since();
        since.map_or(Duration::ZERO, |since| Instant::now().saturating_duration_since(since))
    }

    fn since(&self) -> crate::ledger::runtime::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
