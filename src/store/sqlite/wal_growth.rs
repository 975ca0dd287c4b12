//! Detects checkpoint starvation: `SQLite` resets the WAL once all of it is in the file and no reader needs it. A read
//! transaction of another program that does not end prevents that, and the WAL grows until the disk is full.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A WAL of this size or larger is reported: eight times its usual size.
const REPORTED_FROM: u64 = 128 << 20;
/// How often the report is repeated.
const REPORTED_EVERY: Duration = Duration::from_mins(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct WalGrowth(Mutex<Option<Instant>>);

impl WalGrowth {
    /// Reports a WAL of this size, if it is too large.
    pub(super) fn note(&self, bytes: u64) {
        if self.is_due(bytes, Instant::now()) {
            tracing::warn!(
                bytes,
                "SQLite cannot reset the WAL of the ledger: a program that reads the file has left a transaction open, or a backup takes long; end it before the disk is full (`fuser -v FILE` lists the programs)"
            );
        }
    }

    fn is_due(&self, bytes: u64, now: Instant) -> bool {
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if bytes < REPORTED_FROM {
            *reported = None;
            return false;
        }
        let is_due = reported.is_none_or(|at| now.saturating_duration_since(at) >= REPORTED_EVERY);
        if is_due {
            *reported = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_wal_is_reported_once_a_minute() {
        let (growth, start) = (WalGrowth::default(), Instant::now());
        for (seconds, bytes, is_due) in [
            (0, 16 << 20, false),
            (1, REPORTED_FROM, true),
            (2, REPORTED_FROM, false),
            (60, 2 * REPORTED_FROM, false),
            (61, 2 * REPORTED_FROM, true),
            (62, 0, false),
            (63, REPORTED_FROM, true),
        ] {
            assert_eq!(growth.is_due(bytes, start + Duration::from_secs(seconds)), is_due, "{seconds}");
        }
    }
}
