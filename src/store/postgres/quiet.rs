//! Whether messages come again at the moment.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long after a claim has met an entry, others are expected to.
const STIR: Duration = Duration::from_mins(1);

/// When an insert has last met an entry, on any session of this store. Without one for a while, an insert is sent that
/// does not look for entries before: that takes a fifth of the database's work, and an eighth of its log. Where it meets
/// an entry all the same, it fails as a whole, with an error in the database's own log: so
/// a session gives at most one a minute.
#[derive(Debug, Default)]
pub(super) struct Quiet(Mutex<Option<Instant>>);

impl Quiet {
    pub(super) fn is_quiet(&self, now: Instant) -> bool {
        let met = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        met.is_none_or(|met| now.saturating_duration_since(met) >= STIR)
    }

    /// An insert has met an entry.
    pub(super) fn met(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_quiet_a_minute_after_the_last_entry_was_met() {
        let (quiet, start) = (Quiet::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(quiet.is_quiet(at(0)));
        quiet.met(at(0));
        assert!(!quiet.is_quiet(at(0)) && !quiet.is_quiet(at(59)));
        quiet.met(at(30));
        assert!(!quiet.is_quiet(at(89)) && quiet.is_quiet(at(90)));
    }
}
