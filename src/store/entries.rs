//! What claims and settlements need of a store: entries by their keys.

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

    /// Inserts first grants where there is no entry. They were decided as of instant zero: the
    /// statement adds its clock, so that no row is ever born with an old one ([`Entry::stamped`]).
    /// Where the clock has passed `until` nothing is inserted: what was decided of the window no longer
    /// holds, or the policies may have changed. Gives back the entries that it met, as far as it saw them.
    /// Refused with [`Fault::ClockBehind`](super::Fault::ClockBehind) while the clock is behind.
    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError>;

    /// Completes claims whose token is the latest and which are in progress. For each what was done, or none where
    /// it was not so.
    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError>;

    /// Replaces entries whose version is still the one before. For each: whether it was.
    async fn replace(&mut self, entries: &[Entry]) -> Result<Vec<bool>, StoreError> {
        self.replace_until(entries, &vec![StoreTime::MAX; entries.len()]).await
    }

    /// The same; and each only as long as the store's clock has not passed the instant that is given for it.
    /// There is one for each entry.
    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError>;

    /// Those of these keys whose entry somebody else holds at this moment. It waits for nobody. It cannot see
    /// an entry that another transaction is about to insert.
    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError>;
}

/// What was found under a key.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Absent,
    /// Its entry.
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
    /// What was found by a key's hash, under the key itself.
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

    /// The same, to keep.
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

/// Entries, in the order of the keys that were asked for, and when.
#[derive(Debug)]
pub struct Loaded {
    /// The clock at the time.
    pub reading: Reading,
    /// One for each key.
    pub found: Vec<Found>,
}

/// What became of an insert.
#[derive(Debug)]
pub struct Inserted {
    /// The clock that was added to the rows.
    pub reading: Reading,
    /// One for each row.
    pub outcomes: Vec<InsertOutcome>,
}

/// What became of one row of an insert.
#[derive(Debug)]
pub enum InsertOutcome {
    /// It was inserted, with this token.
    Granted(i64),
    /// It was not inserted, since there is an entry: as the entry stood at the reading. It may have changed
    /// since then, like every entry that was loaded.
    Met(Found),
    /// It was not inserted, and the statement saw no entry: another one came in while the statement ran, or the
    /// instant had passed. Only a load that begins now can tell.
    Unseen,
}

impl Inserted {
    /// By a store that does not look at what it meets.
    pub(super) fn of_tokens(reading: Reading, tokens: Vec<Option<i64>>) -> Inserted {
        let outcome = |token: Option<i64>| token.map_or(InsertOutcome::Unseen, InsertOutcome::Granted);
        Inserted { reading, outcomes: tokens.into_iter().map(outcome).collect() }
    }

    /// For each row: its token, or none where it was not inserted.
    #[must_use]
    pub fn tokens(&self) -> Vec<Option<i64>> {
        let token = |outcome: &InsertOutcome| match outcome {
            InsertOutcome::Granted(token) => Some(*token),
            InsertOutcome::Met(_) | InsertOutcome::Unseen => None,
        };
        self.outcomes.iter().map(token).collect()
    }
}

/// A completion that is guessed to find its claim open.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The key.
    pub key: Key,
    /// The claim's token.
    pub token: i64,
    /// The result.
    pub result: bytes::Bytes,
    /// The result was too large, and is not stored: then `result` is empty.
    pub result_dropped: bool,
    /// The terms by which the policy would grant now.
    pub terms: Terms,
}

impl Completion {
    /// What its column `result` holds: [`result_column`].
    pub(super) fn result_column(&self) -> Option<&[u8]> {
        result_column(&self.result, self.result_dropped)
    }
}

/// A completion that found its claim open, and closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The lease was over.
    pub late: bool,
    /// How many attempts it took.
    pub attempt: i32,
    /// A holder that had lost its claim has reported the same effect as done.
    pub doubled: bool,
}
