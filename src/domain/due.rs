//! When a stored message is handed out, and whether alone: docs/contract.md, section 15.

use super::StoreTime;
use super::body::Body;
use super::entry::{ClosedBy, Entry, State};

impl Entry {
    /// When the stored message is due to be handed out, so that expiry, backoff and a redrive are one queue; `None` if it is not
    /// handed out.
    #[must_use]
    pub fn next_at(&self) -> Option<StoreTime> {
        if self.body != Some(Body::Kept) {
            return None;
        }
        match self.state {
            State::Received | State::FailedRetryable => Some(self.not_before),
            State::InProgress => Some(self.lease_until + self.grace),
            State::Completed | State::FailedTerminal | State::Parked(_) => None,
        }
    }

    /// Whether the lease of the last claim, and that of the one before it, ran out: the message may kill the workers that process it,
    /// and is handed out alone. `now` decides whether the current claim has expired.
    #[must_use]
    pub fn is_suspect(&self, now: StoreTime) -> bool {
        let now_expired = usize::from(self.expired(now));
        let before = self.history.iter().rev().take_while(|past| past.outcome == ClosedBy::Expiry).count();
        now_expired > 0 && now_expired + before >= 2
    }
}
