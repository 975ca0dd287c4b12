//! Whether duplicates have arrived recently, which decides between optimistic inserts and inserts that handle conflicts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long after a duplicate further ones are expected.
const EXPECTED_FOR: Duration = Duration::from_mins(1);

/// When an insert last conflicted with an entry, on any session of this store. Without a recent duplicate, inserts are
/// optimistic: they do not look for entries, which saves a fifth of the database's work and an eighth of its WAL. If such an
/// insert conflicts all the same, it fails as a whole, with an error in the database's log: at most one a minute for each session.
#[derive(Debug, Default)]
pub(super) struct RecentDuplicates(Mutex<Option<Instant>>);

impl RecentDuplicates {
    pub(super) fn none_recently(&self, now: Instant) -> bool {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.is_none_or(|last| now.saturating_duration_since(last) >= EXPECTED_FOR)
    }

    /// Records that an insert conflicted with an entry.
    pub(super) fn record(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_recently_after_a_minute_without_a_duplicate() {
        let (duplicates, start) = (RecentDuplicates::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(duplicates.none_recently(at(0)));
        duplicates.record(at(0));
        assert!(!duplicates.none_recently(at(0)) && !duplicates.none_recently(at(59)));
        duplicates.record(at(30));
        assert!(!duplicates.none_recently(at(89)) && duplicates.none_recently(at(90)));
    }
}
