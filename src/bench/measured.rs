//! The result of one measurement.

use std::time::Duration;

use super::counts::LoadCounts;
use super::machine::Load;
use super::numbers::approximate;
use super::options::Plan;

/// The result of one measurement.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) plan: Plan,
    /// How long was measured.
    pub(super) time: Duration,
    /// The items that were answered within that time.
    pub(super) items: u64,
    /// The calls that began within that time, those included that were answered after it.
    pub(super) tally: LoadCounts,
    /// The entries that this measurement has left in the ledger, with those of its warm-up.
    pub(super) created: u64,
    /// The calls that the rate demanded and that did not begin, since all virtual clients were busy.
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
