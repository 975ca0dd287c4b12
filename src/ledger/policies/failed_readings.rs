//! Readings of the policies by batches that failed: for a second after one, batches leave reading to the heartbeat.

use std::sync::PoisonError;
use std::time::Duration;

use crate::ledger::runtime::{Instant, Mutex};

/// How long batches leave reading the policies to the heartbeat after they failed to read them.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// When a batch last failed to read them; `None` if none did since they were last read.
pub(super) struct FailedReadings(Mutex<Option<Instant>>);

impl FailedReadings {
    pub(super) fn none() -> FailedReadings {
        FailedReadings(Mutex::new(None))
    }

    /// Whether batches leave reading to the heartbeat at `now`.
    pub(super) fn are_recent(&self, now: Instant) -> bool {
        let failed_at = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|at| now.saturating_duration_since(at) < READ_AGAIN_AFTER)
    }

    /// A reading begins at `now`.
    pub(super) fn attempt(&self, now: Instant) -> Attempt<'_> {
        Attempt { failed: self, failed_at: Some(now) }
    }
}

/// A batch's reading of the policies. If it is dropped early, it has failed.
pub(super) struct Attempt<'a> {
    failed: &'a FailedReadings,
    failed_at: Option<Instant>,
}

impl Attempt<'_> {
    /// The reading has ended: when it failed, or `None`.
    pub(super) fn ended(mut self, failed_at: Option<Instant>) {
        self.failed_at = failed_at;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        *self.failed.0.lock().unwrap_or_else(PoisonError::into_inner) = self.failed_at;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_again_a_second_after_a_failure() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let failed = FailedReadings::none();
        let are_recent = || [0, 999, 1_000, 1_001].map(|milliseconds| failed.are_recent(at(milliseconds)));
        assert_eq!(are_recent(), [false; 4], "none failed");
        drop(failed.attempt(start));
        assert_eq!(are_recent(), [true, true, false, false], "one was dropped");
        failed.attempt(start).ended(Some(at(1)));
        assert_eq!(are_recent(), [true, true, true, false], "one failed a millisecond later");
        failed.attempt(start).ended(None);
        assert_eq!(are_recent(), [false; 4], "the last one did not fail");
    }
}
