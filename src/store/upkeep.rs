//! Background work of a server: heartbeat, purge, and the index of open claims.

use async_trait::async_trait;
use uuid::Uuid;

use super::from_row::from_row;
use super::{Fault, StoreError};
use crate::domain::{Entry, KeyHash, PurgeWorker, Reading, Span, StoreTime, TOKEN_CLOCK_MAX};

/// Background work of a server.
#[async_trait]
pub trait Upkeep: Send {
    /// The heartbeat, which also probes the store's health: records that the replica is alive, and the clock's mark. On
    /// Postgres it does not wait if another session has locked `meta`: then a later heartbeat writes the mark. Replicas without
    /// a heartbeat for a day are deleted.
    ///
    /// # Errors
    /// [`Fault::Outdated`](super::Fault::Outdated) once the store does not serve this binary any more.
    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError>;

    /// Adds claims that are a minute old and still open to the index of entries that are not COMPLETED. Returns the number of
    /// entries that it looked at: `limit` if there may be more.
    async fn index_open_claims(&mut self, limit: usize) -> Result<usize, StoreError>;

    /// Takes the turn of the consumer that has been due for the purge for the longest time. It is a lease for `hold`: no other
    /// server takes the turn meanwhile. `None` if no consumer is due.
    async fn take_purge_turn(&mut self, hold: Span) -> Result<Option<PurgeTurn>, StoreError>;

    /// Ends a turn: records its progress, and when the next one is due. Writes nothing if `hold` was over and another server
    /// has taken the turn since, or if another retention of the consumer was put in force since: that ends every turn, and
    /// makes the consumer due.
    async fn end_purge_turn(&mut self, turn: &PurgeTurn, due: StoreTime) -> Result<(), StoreError>;

    /// Reads the entries of a turn's consumer that were created after `after` and up to `until`, oldest first: at most `limit`,
    /// and those created at the same instant as the last one.
    async fn created_between(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
        until: StoreTime,
        limit: usize,
    ) -> Result<Created, StoreError>;

    /// When the first entry of a turn's consumer after this instant was created; `None` if such an entry does not exist.
    async fn first_created_after(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError>;

    /// Deletes entries whose version is still the one that was judged, and is, like the token, a minute below clock + offset.
    /// Deletes nothing if `policy_epoch` is no longer the current
    /// [`PolicyBook::policy_epoch`](super::PolicyBook::policy_epoch): the entries were judged by policies that are not in force
    /// any more. An entry whose row has moved since [`created_between`](Upkeep::created_between) read it may be left for
    /// another turn.
    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError>;

    /// Replaces the purge report of a server. Reports of servers without one for a day are deleted.
    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError>;

    /// Deletes audit events from before an instant, oldest first, up to `limit`; returns their number.
    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError>;
}

/// A due time or lease further ahead than this was written by a wrong clock: the turn counts as due now.
pub const TURN_MAX: Span = Span::from_days(2);

/// Checks that an operator may accept this reading of the clock: a reading that is behind, or from which no tokens can be made,
/// is never acceptable.
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

/// Servers without a report for this long are left out of the list.
pub(super) const HEARD_OF: Span = Span::from_days(1);
/// The maximum number of servers in the list.
pub(super) const WORKERS_MAX: i64 = 1_000;

/// The maximum number of replicas without a heartbeat for a day that one heartbeat deletes.
pub(super) const FORGOTTEN_MAX: i64 = 100;

/// A consumer's turn at the purge.
#[derive(Clone, Debug)]
pub struct PurgeTurn {
    /// The consumer.
    pub consumer: String,
    /// The consumer's number in the store.
    pub(super) number: i32,
    /// When the lease of the turn ends.
    pub(super) held: StoreTime,
    /// When it was taken.
    pub taken: Reading,
    /// The progress of the purge with the consumer.
    pub place: PurgePlace,
}

/// The progress of the purge with a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgePlace {
    /// First pass: every entry that was created up to this instant was looked at a first time.
    pub passed: StoreTime,
    /// Second pass: up to this instant, the entries that the first pass left were looked at again.
    pub again: StoreTime,
    /// When the second pass continues.
    pub again_due: StoreTime,
}

/// A range of a consumer's entries, by creation.
#[derive(Debug)]
pub struct Created {
    /// When they were read.
    pub reading: Reading,
    /// The number of rows, including those that cannot be read and are missing in `entries`.
    pub count: usize,
    /// When the last of them was created.
    pub last: Option<StoreTime>,
    /// The entries.
    pub entries: Vec<Entry>,
}

from_row! {
    /// The report of a replica in its heartbeat.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ClockLimits;

    #[test]
    fn acceptable_refuses_a_clock_without_sound_tokens() {
        let limits = ClockLimits { earliest: StoreTime(100), jump_max: Span(10) };
        for (now, token_offset, mark, says) in [
            (100, 0, 0, None),
            // Ahead of its mark: this is what an operator may accept.
            (1_000, 0, 100, None),
            (99, 0, 0, Some("behind the date of this release")),
            (150, 0, 151, Some("behind its mark")),
            (TOKEN_CLOCK_MAX, 0, 0, None),
            (TOKEN_CLOCK_MAX, 1, 0, Some("no token is left below 2^53")),
            (TOKEN_CLOCK_MAX + 1, 0, TOKEN_CLOCK_MAX, Some("no token is left below 2^53")),
        ] {
            let refused = acceptable(&Reading { now: StoreTime(now), token_offset, mark, limits });
            let text = refused.err().map(|error| error.to_string());
            assert_eq!(text.is_some(), says.is_some(), "{now} {token_offset} {mark}: {text:?}");
            let fits =
                text.is_none_or(|text| text.contains(says.unwrap()) && text.contains("nothing was changed"));
            assert!(fits, "{now} {token_offset} {mark}");
        }
    }
}
