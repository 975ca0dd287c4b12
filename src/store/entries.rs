//! The part of a store that claims and settlements use: entries by their keys.

use async_trait::async_trait;

use super::StoreError;
use super::results::result_column;
use super::unreadable::log_unreadable;
use crate::common::log_limit::error_once_a_second;
use crate::domain::{Entry, Key, KeyHash, Reading, Reason, Rejection, StoreTime, Terms, UnreadableEntry};

/// Entries by their keys. Slices hold at most [`ROWS_MAX`](super::ROWS_MAX) rows, each key once.
#[async_trait]
pub trait Entries: Send {
    /// Loads entries.
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError>;

    /// Inserts first grants under keys that do not have an entry. They were decided as of instant zero: the statement adds the
    /// store's clock, so that no row is created with an outdated one ([`Entry::stamped`]). If the clock has passed `until`,
    /// nothing is inserted: the decision about the window no longer holds, or the policies may have changed. Returns
    /// conflicting entries as far as the statement saw them. Refused with [`Fault::ClockBehind`](super::Fault::ClockBehind)
    /// while the clock is behind.
    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError>;

    /// Completes claims that are in progress under the latest token. For each, the result, or `None` if it was not in progress
    /// under this token.
    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError>;

    /// Replaces entries whose version is still the expected one. Returns for each whether it was replaced.
    async fn replace(&mut self, entries: &[Entry]) -> Result<Vec<bool>, StoreError> {
        self.replace_until(entries, &vec![StoreTime::MAX; entries.len()]).await
    }

    /// Replaces entries as [`replace`](Entries::replace) does, but each entry only if the store's clock has not passed the
    /// instant given for it. `until` has one instant for each entry.
    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError>;

    /// Returns the keys whose row another transaction has locked at this moment. Does not wait for locks. Cannot see an entry
    /// that another transaction is about to insert.
    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError>;
}

/// The result of a look-up by key.
#[derive(Debug)]
pub enum Found {
    /// No entry.
    Absent,
    /// The entry of the key.
    Entry(Box<Entry>),
    /// The entry of another key with the same hash.
    Collision,
    /// A row that cannot be read.
    Unreadable(UnreadableEntry),
}

/// A row, or why it cannot be read.
impl From<Result<Entry, UnreadableEntry>> for Found {
    fn from(read: Result<Entry, UnreadableEntry>) -> Found {
        match read {
            Ok(entry) => Found::Entry(Box::new(entry)),
            Err(unreadable) => Found::Unreadable(unreadable),
        }
    }
}

impl Found {
    /// Checks what was found by a key's hash against the key itself.
    pub(super) fn under(self, key: &Key) -> Found {
        match self {
            Found::Entry(entry) if entry.key != *key => Found::Collision,
            other @ (Found::Entry(_) | Found::Absent | Found::Collision | Found::Unreadable(_)) => other,
        }
    }

    /// The entry, if there is one.
    ///
    /// # Errors
    /// `KEY_COLLISION`, `ENTRY_UNREADABLE`.
    pub fn entry(&self, key: KeyHash) -> Result<Option<&Entry>, Rejection> {
        match self {
            Found::Absent => Ok(None),
            Found::Entry(entry) => Ok(Some(entry)),
            Found::Collision => {
                error_once_a_second!(%key, "two keys have the same hash");
                Err(Rejection::new(
                    Reason::KeyCollision,
                    "another key has the same 128-bit hash; this message cannot be tracked: use another id",
                ))
            }
            Found::Unreadable(unreadable) => {
                log_unreadable(unreadable);
                Err(unreadable.rejection())
            }
        }
    }

    /// The entry by value, if there is one.
    ///
    /// # Errors
    /// As [`Found::entry`].
    pub fn into_entry(self, key: KeyHash) -> Result<Option<Entry>, Rejection> {
        match self {
            Found::Entry(entry) => Ok(Some(*entry)),
            other @ (Found::Absent | Found::Collision | Found::Unreadable(_)) => {
                other.entry(key).map(Option::<&Entry>::cloned)
            }
        }
    }
}

/// Loaded entries, in the order of the requested keys.
#[derive(Debug)]
pub struct Loaded {
    /// The clock at the time of the load.
    pub reading: Reading,
    /// One result for each key.
    pub found: Vec<Found>,
}

/// The result of an insert.
#[derive(Debug)]
pub struct Inserted {
    /// The clock that was added to the rows.
    pub reading: Reading,
    /// One outcome for each row.
    pub outcomes: Vec<InsertOutcome>,
}

/// The outcome of one row of an insert.
#[derive(Debug)]
pub enum InsertOutcome {
    /// The row was inserted, with this token.
    Granted(i64),
    /// The row was not inserted, because there is this entry, as it was at the reading. It may have changed since then, like
    /// every loaded entry.
    Conflict(Found),
    /// The row was not inserted, and the statement saw no entry: another transaction committed one while the statement ran, or
    /// `until` had passed. Only a new load can tell.
    UnknownConflict,
}

impl Inserted {
    /// The result of a store that does not return conflicting entries.
    pub(super) fn of_tokens(reading: Reading, tokens: Vec<Option<i64>>) -> Inserted {
        let outcome =
            |token: Option<i64>| token.map_or(InsertOutcome::UnknownConflict, InsertOutcome::Granted);
        Inserted { reading, outcomes: tokens.into_iter().map(outcome).collect() }
    }

    /// For each row its token, or `None` if it was not inserted.
    #[must_use]
    pub fn tokens(&self) -> Vec<Option<i64>> {
        let token = |outcome: &InsertOutcome| match outcome {
            InsertOutcome::Granted(token) => Some(*token),
            InsertOutcome::Conflict(_) | InsertOutcome::UnknownConflict => None,
        };
        self.outcomes.iter().map(token).collect()
    }
}

/// An optimistic completion: it assumes that the claim is open.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The key.
    pub key: Key,
    /// The claim's token.
    pub token: i64,
    /// The result.
    pub result: bytes::Bytes,
    /// Whether the result was too large and is not stored: then `result` is empty.
    pub result_dropped: bool,
    /// The terms that the policy would grant now.
    pub terms: Terms,
}

impl Completion {
    /// The value of the column `result`: see [`result_column`].
    pub(super) fn result_column(&self) -> Option<&[u8]> {
        result_column(&self.result, self.result_dropped)
    }
}

/// A completion that found its claim open, and closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Whether the lease was over.
    pub late: bool,
    /// The number of attempts.
    pub attempt: i32,
    /// Whether a holder that had lost its claim has reported the same effect as done.
    pub doubled: bool,
}
