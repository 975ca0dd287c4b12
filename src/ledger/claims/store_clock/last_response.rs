//! Since when claims and settlements wait for an answer of the store: what the health of this server shows
//! besides its own heartbeat, which has a connection of its own.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::ledger::runtime::{Instant, Mutex};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    /// The oldest statement since which no session was answered.
    since: Mutex<Option<Instant>>,
    sent: AtomicU64,
}

impl Pulse {
    /// A statement was sent.
    pub(in crate::ledger::claims) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.since().get_or_insert_with(Instant::now);
    }

    /// How many statements were sent since the start.
    pub(crate) fn count(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Some session was answered, whatever the answer was.
    pub(in crate::ledger::claims) fn answered(&self) {
        *self.since() = None;
    }

    /// For how long nobody has been answered, although somebody waits.
    pub(crate) fn unanswered_for(&self) -> Duration {
        let since = *self.since();
        since.map_or(Duration::ZERO, |since| Instant::now().saturating_duration_since(since))
    }

    fn since(&self) -> crate::ledger::runtime::MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
