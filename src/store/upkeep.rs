//! What a server does by itself: heartbeat, purge, and the index of open claims.

use async_trait::async_trait;
use uuid::Uuid;

use super::StoreError;
use super::from_row::from_row;
use crate::domain::{Entry, KeyHash, PurgeWorker, Reading, Span, StoreTime};

/// What a server does by itself.
#[async_trait]
pub trait Upkeep: Send {
    /// The heartbeat, and the probe of the store's health: writes down that the replica was heard of, and the
    /// clock's mark. On Postgres it waits for nobody who has locked `meta`: then it leaves the mark to a later
    /// one. Replicas that were not heard of for a day are forgotten.
    ///
    /// # Errors
    /// [`Fault::Outdated`](super::Fault::Outdated) once the store does not serve this binary any more.
    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError>;

    /// Puts claims that are a minute old, and still open, into the index of what is not COMPLETED. Says how
    /// many entries it looked at: as many as `limit` where there may be more.
    async fn index_open_claims(&mut self, limit: usize) -> Result<usize, StoreError>;

    /// Entries that the purge should look at, the longest due first. Rows that cannot be read are put
    /// off by a day, so that they hold up nothing.
    async fn due(&mut self, limit: usize) -> Result<(Reading, Vec<Entry>), StoreError>;

    /// Sets when the purge looks again, where the version is still the same.
    async fn look_again(&mut self, entries: &[(KeyHash, i64, StoreTime)]) -> Result<usize, StoreError>;

    /// Deletes entries whose version is still the one that was judged, and is, like the token, a minute
    /// below clock + offset. Deletes nothing where `policy_epoch` is not what
    /// [`PolicyBook::policy_epoch`](super::PolicyBook::policy_epoch) says now: they were
    /// judged by what is not in force any more.
    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError>;

    /// Writes down what the purge of a server did, in place of what it did before. Servers that were not heard
    /// of for a day are forgotten.
    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError>;

    /// Forgets audit events from before an instant, the oldest first, up to `limit`.
    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError>;
}

/// When the purge looks again at a row that it could not read.
pub(super) const UNREADABLE_AGAIN: Span = Span::from_days(1);

/// How long a server is told of that was not heard of since.
pub(super) const HEARD_OF: Span = Span::from_days(1);
/// How many servers are told of, at the most.
pub(super) const WORKERS_MAX: i64 = 1_000;

/// How many replicas that were not heard of for a day one heartbeat forgets, at the most.
pub(super) const FORGOTTEN_MAX: i64 = 100;

from_row! {
    /// What a replica tells of itself.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Replica {
        /// Its id, made at each start.
        pub id: Uuid,
        /// The newest feature that it knows; formats of stored policies are such features.
        pub speaks: i32,
        /// The version of its binary, for people.
        pub version: String,
    }
}
