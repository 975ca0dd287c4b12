//! What operators are told of the purge.

use uuid::Uuid;

use crate::domain::StoreTime;

/// What the purge of one server did.
#[derive(Clone, Debug, PartialEq)]
pub struct PurgeWorker {
    /// The server's id, made at each start.
    pub replica: Uuid,
    /// When it looked last.
    pub last_run_at: StoreTime,
    /// How many entries it forgot since its start.
    pub purged_total: i64,
    /// How many of them a second, over its last minute.
    pub purged_per_second: f64,
    /// What went wrong last, in words that may leave the server.
    pub last_error: Option<String>,
    /// When that was.
    pub last_error_at: Option<StoreTime>,
}

/// What waits for the purge, and what became of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PurgeStatus {
    /// How many entries wait to be looked at, as far as was counted.
    pub due: usize,
    /// Since when the first of them waits.
    pub oldest: Option<StoreTime>,
    /// The servers that were heard of within the last day, the latest first.
    pub workers: Vec<PurgeWorker>,
}
