//! One measurement, as it was made.

use std::time::Duration;

use super::machine::Load;
use super::numbers::approximate;
use super::options::Plan;
use super::tally::Tally;

/// What was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) plan: Plan,
    /// For how long it was measured.
    pub(super) time: Duration,
    /// What was answered within that time.
    pub(super) items: u64,
    /// Calls that were begun within that time, those included that were answered after it.
    pub(super) tally: Tally,
    /// Entries that this measurement has left in the ledger, those of its warm-up included.
    pub(super) created: u64,
    /// Calls that the rate would have had, and for which there was no room.
    pub(super) missed: u64,
    pub(super) load: Load,
}

impl Measured {
    pub(super) fn rate(&self) -> f64 {
        approximate(self.items) / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The 99th percentile of all latencies.
    pub(super) fn p99(&self) -> Duration {
        Duration::from_micros(self.tally.all().value_at_quantile(0.99))
    }
}
