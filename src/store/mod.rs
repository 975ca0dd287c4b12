//! The disk: loads entries by key, and writes them back where the version is still the expected
//! one. It knows no rules.
//!
//! A [`Store`] opens [`Session`]s. A session is one connection that one long-lived task owns: no
//! request's future ever holds it, so that a client that goes away can not leave a statement half
//! done. Each write is one autocommit statement (Postgres) or one transaction (`SQLite`), sorted by
//! key, and is durable when the call returns.

mod clock;
mod postgres;
mod purge;
mod query;
mod replica;
mod row;
mod sqlite;

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;

use crate::domain::{
    AuditEvent, AuditListing, Entry, ImportedEntry, Key, KeyHash, Listed, Listing, PolicyVersion,
    PurgeStatus, PurgeWorker, Reading, Reason, Rejection, Span, State, StoreTime, Summary,
};

pub use clock::{Clock, SystemClock};
pub use postgres::list::ALL as POSTGRES_STATEMENTS;
pub use postgres::statements::SETTINGS as POSTGRES_SETTINGS;
pub use postgres::{PostgresOptions, PostgresStore};
pub use replica::Replica;
pub use sqlite::SqliteStore;
pub use sqlite::list::ALL as SQLITE_STATEMENTS;

/// How many rows one statement carries at the most.
pub const ROWS_MAX: usize = 1_000;

/// Why a statement of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Certainly not applied.
    #[error("not applied: {0}")]
    NotApplied(Fault),
    /// Perhaps applied, perhaps not: the connection was lost, or the answer never came.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl StoreError {
    /// Of a read before any write of its job: where its connection broke nothing was applied.
    pub(crate) fn nothing_sent(self) -> StoreError {
        match self {
            StoreError::Unknown(text) => StoreError::NotApplied(Fault::Unavailable(text)),
            error @ StoreError::NotApplied(_) => error,
        }
    }
}

/// Why a statement was certainly not applied. The texts are for the log; they never leave the
/// server.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The store can not be reached or refuses writes; another time it may not.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The statement lost against another one and may be repeated at once.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Somebody holds one of its rows, and does not let go.
    #[error("{0}")]
    Locked(String),
    /// A row of the batch is at fault: no repeat will help.
    #[error("refused for good: {0}")]
    Permanent(String),
    /// The session's own prepared statements are of no use any more: a new session works.
    #[error("the session is stale: {0}")]
    Stale(String),
    /// The store's clock runs behind what it showed before.
    #[error("the store's clock is behind its mark")]
    ClockBehind,
    /// The schema is not the one that this binary works with.
    #[error("{0}")]
    Schema(String),
}

/// When the purge looks again at a row that it could not read.
const UNREADABLE_AGAIN: Span = Span::from_days(1);

/// What was found under a key.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Absent,
    /// Its entry.
    Entry(Box<Entry>),
    /// The entry of another key with the same hash.
    Collision,
    /// A row that can not be read; the text names table, column and key.
    Unreadable(String),
}

impl Found {
    /// The entry, if there is one.
    ///
    /// # Errors
    /// `KEY_COLLISION`, `ENTRY_UNREADABLE`.
    pub fn entry(&self, key: &Key) -> Result<Option<&Entry>, Rejection> {
        match self {
            Found::Absent => Ok(None),
            Found::Entry(entry) => Ok(Some(entry)),
            Found::Collision => {
                tracing::error!(key = %key.hash(), "two keys have the same hash");
                Err(Rejection::new(
                    Reason::KeyCollision,
                    "another key has the same 128-bit hash; this message cannot be tracked: use another id",
                ))
            }
            Found::Unreadable(problem) => {
                tracing::error!(problem, "an entry cannot be read");
                Err(Rejection::new(
                    Reason::EntryUnreadable,
                    "the stored entry of this key cannot be read; an operator must look at it",
                ))
            }
        }
    }

    /// The same, to keep.
    ///
    /// # Errors
    /// As [`Found::entry`].
    pub fn into_entry(self, key: &Key) -> Result<Option<Entry>, Rejection> {
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
    /// For each row: its token, or none where there was an entry already.
    pub tokens: Vec<Option<i64>>,
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
    /// The policy's retention.
    pub retention: Span,
}

/// The effective retention of a consumer (or, under the empty name, of the default policy) as it
/// was last put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveRetention {
    /// The consumer.
    pub consumer: String,
    /// The retention; none: it had no policy of its own.
    pub retention: Option<Span>,
    /// Messages made at or before this instant may have been purged.
    pub window_floor: StoreTime,
}

impl EffectiveRetention {
    /// Of a consumer of which nothing is written down.
    #[must_use]
    pub fn nothing(consumer: &str) -> EffectiveRetention {
        EffectiveRetention { consumer: consumer.to_owned(), retention: None, window_floor: StoreTime(0) }
    }
}

/// What an operator's change writes.
#[derive(Clone, Debug)]
pub enum Write {
    /// The entry as it must stand then, where the version is still the one before.
    Replace(Box<Entry>),
    /// A new entry, decided as of instant zero.
    Insert(Box<Entry>),
    /// The entry goes, where its version is still this one.
    Delete(KeyHash, i64),
    /// No entry changes: the event itself is what is kept.
    Nothing,
}

/// A new `token_offset`, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetRaise {
    /// What it is now.
    pub from: i64,
    /// What it is to be.
    pub to: i64,
}

/// What became of an operator's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// It is written, and so is its audit event.
    Done,
    /// The entry was changed by somebody else: nothing is written.
    Lost,
    /// The request id was used before: nothing is written.
    Repeated,
}

/// What a session is for. It decides how long its statements may run and wait for a lock, and how many
/// backends a server may leave behind for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Claims and settlements: short statements that hardly wait.
    Claims,
    /// The heartbeat, once a second.
    Heartbeat,
    /// The purge.
    Purge,
    /// The index of open claims.
    OpenClaims,
    /// What operators read.
    Reads,
    /// What operators change; also what a server changes at its start.
    Changes,
}

/// A store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// For people: what kind of store, and where; without secrets.
    fn describe(&self) -> String;

    /// How many sessions the ledger should work with.
    fn sessions(&self) -> usize;

    /// Opens a session, and checks that the store can be trusted: it is writable, commits are
    /// durable, and the schema is the one that this binary works with. A session for claims is handed
    /// out only after a write of its own was answered.
    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError>;

    /// Brings the schema up to this binary's version; says how many migrations were applied.
    async fn migrate(&self) -> Result<usize, StoreError>;
}

/// One connection, owned by one task. Slices hold at most [`ROWS_MAX`] rows, each key once.
#[async_trait]
pub trait Session: Send {
    /// Loads entries.
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError>;

    /// Inserts first grants where there is no entry. They were decided as of instant zero: the
    /// statement adds its clock, so that no row is ever born with an old one ([`Entry::stamped`]).
    /// Where the clock has passed `until` nothing is inserted: what was decided of the window no longer
    /// holds, or the policies may have changed. Refused with [`Fault::ClockBehind`] while the clock is behind.
    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError>;

    /// Completes claims whose token is the latest and which are in progress. For each: whether the
    /// lease was over, or none where it was not so.
    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError>;

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

    /// The heartbeat, and the probe of the store's health: writes down that the replica was heard of, and the
    /// clock's mark. On Postgres it waits for nobody who has locked `meta`: then it leaves the mark to a later
    /// one. Replicas that were not heard of for a day are forgotten.
    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError>;

    /// Replicas that were heard of since then and cannot read stored policies of this format.
    async fn replicas_below(
        &mut self,
        format: i32,
        heard_since: StoreTime,
        limit: usize,
    ) -> Result<Vec<Replica>, StoreError>;

    /// Lists entries, as one look shows them. Looks at a bounded number of rows, so that a page may hold
    /// less than asked for while there is more.
    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError>;

    /// The consumers that have entries, by name, after this one.
    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Counts the entries of consumers, each with the number of attempts that its policy allows (0: no
    /// limit). What is not COMPLETED is counted by its index, what is is estimated from a sample.
    async fn summary(&mut self, consumers: &[(String, i32)]) -> Result<Summary, StoreError>;

    /// Puts claims that are a minute old, and still open, into the index of what is not COMPLETED. Says how
    /// many entries it looked at: as many as `limit` where there may be more.
    async fn index_open_claims(&mut self, limit: usize) -> Result<usize, StoreError>;

    /// Entries that the purge should look at, the longest due first. Rows that can not be read are put
    /// off by a day, so that they hold up nothing.
    async fn due(&mut self, limit: usize) -> Result<(Reading, Vec<Entry>), StoreError>;

    /// Sets when the purge looks again, where the version is still the same.
    async fn look_again(&mut self, entries: &[(KeyHash, i64, StoreTime)]) -> Result<usize, StoreError>;

    /// The number of what is in force: another one after each change by [`Session::add_policy`] and
    /// [`Session::put_in_force`]. Whoever reads it and then the policies sees all changes up to it.
    async fn policy_epoch(&mut self) -> Result<i64, StoreError>;

    /// Deletes entries whose version is still the one that was judged, and is, like the token, a minute
    /// below clock + offset. Deletes nothing where `policy_epoch` is not what [`Session::policy_epoch`] says now: they were
    /// judged by what is not in force any more.
    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError>;

    /// Writes down what the purge of a server did, in place of what it did before. Servers that were not heard
    /// of for a day are forgotten.
    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError>;

    /// What waits for the purge, counted up to `due_max`, and what the servers' purges did.
    async fn purge_status(&mut self, due_max: usize) -> Result<(Reading, PurgeStatus), StoreError>;

    /// Writes an operator's change and its audit event, both or neither.
    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError>;

    /// Raises `token_offset` where it is still the one before, and writes the audit event: both or neither. When
    /// it returns, every statement that began with the old one has ended: no later row of a key can have a
    /// token below that of a row which the new offset makes old enough to be forgotten.
    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// Stores entries as completed where there is none, and the audit event of all of them: either all or
    /// nothing. Slices hold at most [`ROWS_MAX`] rows, sorted by key, each key once.
    async fn import(
        &mut self,
        entries: &[ImportedEntry],
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// How many entries were redriven under request ids that begin with this, and end with a hash.
    async fn count_redriven(&mut self, prefix: &str) -> Result<i64, StoreError>;

    /// The audit event of a request.
    async fn audited(&mut self, request_id: &str) -> Result<Option<AuditEvent>, StoreError>;

    /// Lists audit events.
    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError>;

    /// Forgets audit events from before an instant, the oldest first, up to `limit`.
    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError>;

    /// Adds a version of a policy, where it is the next one; puts the retention in force that comes with
    /// it, and writes its audit event: all or nothing.
    async fn add_policy(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// The newest version of every consumer's own policy, by name.
    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError>;

    /// The versions of one consumer's policy, newest first, below `before`.
    async fn policy_versions(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError>;

    /// The retentions and window floors that were last in force.
    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError>;

    /// Puts retentions in force; a window floor never falls.
    /// With `seen`, one for each, only where that still stands there. Says how many changed.
    async fn put_in_force(
        &mut self,
        all: &[EffectiveRetention],
        seen: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError>;
}

/// The number of a state: that of `EntryState`.
#[must_use]
pub fn state_number(state: State) -> i16 {
    row::state_numbers(state).0
}

/// The highest reading of clock + offset that this process has seen, shared by its sessions.
#[derive(Debug, Default)]
struct Mark(AtomicI64);

impl Mark {
    /// To be read before a statement is sent: a later reading can not rightly be lower.
    fn get(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn raise(&self, reading: &Reading) {
        self.0.fetch_max(reading.token_clock(), Ordering::SeqCst);
    }
}

/// Puts rows that came in any order back to the order of `keys`.
fn in_order<T, K: std::hash::Hash + Eq>(
    keys: impl Iterator<Item = K>,
    rows: Vec<(K, T)>,
) -> impl Iterator<Item = Option<T>> {
    let mut by_key: std::collections::HashMap<K, T> = rows.into_iter().collect();
    keys.map(move |key| by_key.remove(&key))
}
