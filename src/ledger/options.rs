//! How the ledger works.

use std::time::Duration;

use super::inbox::InboxOptions;
use super::upkeep::purge::PurgeOptions;
use super::waiting::Bounds as WaitBounds;

/// How the ledger works; each has a bound.
#[derive(Clone, Copy, Debug)]
pub struct LedgerOptions {
    /// Maximum number of waiting commands.
    pub queue_max: usize,
    /// Maximum bytes of all commands that are not answered, also of those in flight.
    pub queue_bytes_max: usize,
    /// Maximum number of commands in a batch.
    pub batch_max: usize,
    /// Whether only consumers with a configured policy are served.
    pub registered_only: bool,
    /// Whether operators must state the redelivery window of a policy that they set.
    pub window_required: bool,
    /// Whether the log contains the error texts of consumers.
    pub log_error_texts: bool,
    /// Within this time a hold is in force everywhere: the longest time for which claims are granted by policies that could
    /// not be read again.
    pub policies_trusted_for: Duration,
    /// Interval at which the entries are counted for the metrics.
    pub count_every: Duration,
    /// How the purge works.
    pub purge: PurgeOptions,
    /// Bounds of the calls that wait for a verdict.
    pub waits: WaitBounds,
    /// How the inbox works.
    pub inbox: InboxOptions,
}
