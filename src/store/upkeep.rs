//! What a server does by itself: heartbeat, purge, and the index of open claims.

use async_trait::async_trait;
use uuid::Uuid;

use super::from_row::from_row;
use super::{Fault, StoreError};
use crate::domain::{Entry, KeyHash, PurgeWorker, Reading, Span, StoreTime, TOKEN_CLOCK_MAX};

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

    /// Takes the turn of the consumer that has been due for the purge for the longest time, for as long as `hold`:
    /// no other server takes it meanwhile. None: no consumer is due.
    async fn take_purge_turn(&mut self, hold: Span) -> Result<Option<PurgeTurn>, StoreError>;

    /// Ends a turn: writes down how far it came, and when the next one is due. It writes nothing where `hold` was
    /// over and another server has taken the turn since, or where another retention of the consumer was put in force
    /// since: that ends every turn, and makes the consumer due.
    async fn end_purge_turn(&mut self, turn: &PurgeTurn, due: StoreTime) -> Result<(), StoreError>;

    /// The entries of a turn's consumer that were created after one instant and until another, the oldest first: so
    /// many, and those of the same instant as the last one.
    async fn created_between(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
        until: StoreTime,
        limit: usize,
    ) -> Result<Created, StoreError>;

    /// When the first entry of a turn's consumer after this instant was created.
    async fn first_created_after(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError>;

    /// Deletes entries whose version is still the one that was judged, and is, like the token, a minute
    /// below clock + offset. Deletes nothing where `policy_epoch` is not what
    /// [`PolicyBook::policy_epoch`](super::PolicyBook::policy_epoch) says now: they were
    /// judged by what is not in force any more. An entry that the store has moved since
    /// [`created_between`](Upkeep::created_between) read it may be left for another time.
    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError>;

    /// Writes down what the purge of a server did, in place of what it did before. Servers that were not heard
    /// of for a day are forgotten.
    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError>;

    /// Forgets audit events from before an instant, the oldest first, up to `limit`.
    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError>;
}

/// What is further off than this was written down by a clock that was wrong: it is due now.
pub const TURN_MAX: Span = Span::from_days(2);

/// Whether an operator may accept this reading of the clock: one that is behind, or from which no tokens can be made, stays
/// wrong whatever the operator says.
pub(super) fn acceptable(reading: &Reading) -> Result<(), StoreError> {
    let problem = if reading.behind() {
        "it is behind its mark, or behind the date of this release: set it right"
    } else if reading.token_clock() > TOKEN_CLOCK_MAX {
        "no token is left below 2^53: set it right"
    } else {
        return Ok(());
    };
    Err(StoreError::NotApplied(Fault::Permanent(format!(
        "the store's clock ({} us since 1970) cannot be accepted: {problem}; nothing was changed",
        reading.now.micros()
    ))))
}

/// How long a server is told of that was not heard of since.
pub(super) const HEARD_OF: Span = Span::from_days(1);
/// How many servers are told of, at the most.
pub(super) const WORKERS_MAX: i64 = 1_000;

/// How many replicas that were not heard of for a day one heartbeat forgets, at the most.
pub(super) const FORGOTTEN_MAX: i64 = 100;

/// A consumer's turn at the purge.
#[derive(Clone, Debug)]
pub struct PurgeTurn {
    /// The consumer.
    pub consumer: String,
    /// The consumer's number in the store.
    pub(super) number: i32,
    /// Until when the turn is held.
    pub(super) held: StoreTime,
    /// When it was taken.
    pub taken: Reading,
    /// How far the purge has come with the consumer.
    pub place: PurgePlace,
}

/// How far the purge has come with a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgePlace {
    /// It has looked once at every entry that was created up to this instant.
    pub passed: StoreTime,
    /// Up to this instant it has looked again at those that it had left.
    pub again: StoreTime,
    /// When it goes on to look again.
    pub again_due: StoreTime,
}

/// Some of a consumer's entries, by their creation.
#[derive(Debug)]
pub struct Created {
    /// When they were read.
    pub reading: Reading,
    /// How many there were; those that cannot be read are not among `entries`.
    pub count: usize,
    /// When the last one was created.
    pub last: Option<StoreTime>,
    /// The entries.
    pub entries: Vec<Entry>,
}

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
