//! How long claims and settlements have waited for a response of the store: an input of this server's health, next to its
//! heartbeat, which has a separate connection.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::ledger::runtime::{Instant, Mutex};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LastResponse {
    /// When the oldest statement was sent since which no session had a response.
    since: Mutex<Option<Instant>>,
    sent: AtomicU64,
}

impl LastResponse {
    /// Notes that a statement was sent.
    pub(in crate::ledger::claims) fn sent(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        self.since().get_or_insert_with(Instant::now);
    }

    /// Number of statements sent since the start.
    pub(crate) fn count(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Notes that the store responded to a session, with whatever result.
    pub(in crate::ledger::claims) fn answered(&self) {
        *self.since() = None;
    }

    /// How long no session has had a response while at least one waits for it.
    pub(crate) fn unanswered_for(&self) -> Duration {
        let since = *self.since();
        since.map_or(Duration::ZERO, |since| Instant::now().saturating_duration_since(since))
    }

    fn since(&self) -> crate::ledger::runtime::MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
