//! The state of the purge, for operators.

use uuid::Uuid;

use crate::StoreTime;

/// The progress of one server's purge.
#[derive(Clone, Debug, PartialEq)]
pub struct PurgeWorker {
    /// The server's id, made at each start.
    pub replica: Uuid,
    /// When it last looked for entries.
    pub last_run_at: StoreTime,
    /// The number of entries that it purged since its start.
    pub purged_total: i64,
    /// The number that it purged per second, over its last minute.
    pub purged_per_second: f64,
    /// Its last error, in words that may leave the server.
    pub last_error: Option<String>,
    /// When that error happened.
    pub last_error_at: Option<StoreTime>,
}

/// The backlog of the purge, and its progress.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PurgeStatus {
    /// The number of entries that wait to be looked at, as far as was counted.
    pub due: usize,
    /// Since when the oldest of them waits.
    pub oldest: Option<StoreTime>,
    /// The servers with a report within the last day, the latest first.
    pub workers: Vec<PurgeWorker>,
}
