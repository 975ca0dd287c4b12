//! Storage: loads entries by key, and writes them back if the version is still the expected one (compare and set). It does not
//! contain rules of the domain.
//!
//! A [`Store`] opens [`Session`]s. A session is one connection that one long-lived task owns: no request's future ever holds
//! it, so that a client that disconnects cannot abort a statement halfway. Each write is one autocommit statement (Postgres) or
//! one transaction (`SQLite`), sorted by key, and is durable when the call returns.

mod clock;
mod columns;
mod dictionary;
mod entries;
mod error;
mod from_row;
mod history;
mod holds;
mod ids;
mod inbox;
mod measured;
pub mod migrations;
mod numbers;
mod operators;
mod policies;
mod postgres;
mod query;
mod records;
mod replays;
mod results;
mod row;
mod schema;
mod sqlite;
mod traceparent;
mod unreadable;
mod upkeep;

use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;

use crate::domain::{Reading, State, StoreTime};

pub use clock::{CLOCK_LIMITS, Clock, RELEASED, SystemClock};
pub use entries::{Completion, Done, Entries, Found, InsertOutcome, Inserted, Loaded};
pub use error::{Fault, StoreError};
pub use holds::{HOLD_LEVEL, HoldBook};
pub use inbox::{
    Candidate, Choice, Choose, Chosen, Due, DueCounts, DueLook, DuePlace, EntryWithMessage, Erased,
    HandedOut, Handout, INBOX_LEVEL, Inbox, KeptMessage, MessagePlace,
};
#[doc(hidden)]
pub use measured::{MeasuredRow, MeasuredRows};
pub use operators::{EventDigests, LeftAlone, OffsetRaise, Operators, PartDigests, Write, WriteResult};
pub use policies::{EffectiveRetention, PolicyBook};
pub use postgres::migrate::MigrationPace;
pub use postgres::statement_list::ALL as POSTGRES_STATEMENTS;
pub use postgres::statements::SETTINGS as POSTGRES_SETTINGS;
pub use postgres::{PostgresOptions, PostgresSource, PostgresStore, SchemaName, UrlSource, WrongSource};
pub use replays::{REPLAY_LEVEL, ReplayBook};
pub use schema::{LEVEL, SCHEMA};
pub use sqlite::statement_list::ALL as SQLITE_STATEMENTS;
pub use sqlite::{Copied, SqliteStore};
pub(crate) use unreadable::log_unreadable;
pub use upkeep::{Created, PurgePlace, PurgeTurn, Replica, TURN_MAX, Upkeep};

/// The maximum number of rows of one statement.
pub const ROWS_MAX: usize = 1_000;

/// The purpose of a session. It determines the timeouts for statements and locks, and how many orphaned backends a server may
/// have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Claims and settlements: short statements with short lock timeouts.
    Claims,
    /// The heartbeat, once a second.
    Heartbeat,
    /// The purge.
    Purge,
    /// The index of open claims.
    OpenClaims,
    /// Polls of the keys for which calls wait.
    Waits,
    /// Messages, and handouts of them.
    Inbox,
    /// Reads of operators.
    Reads,
    /// Changes of operators, and those of a server at its start.
    Changes,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 8] = [
        Purpose::Claims,
        Purpose::Heartbeat,
        Purpose::Purge,
        Purpose::OpenClaims,
        Purpose::Waits,
        Purpose::Inbox,
        Purpose::Reads,
        Purpose::Changes,
    ];

    /// The name in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Claims => "claims",
            Purpose::Heartbeat => "heartbeat",
            Purpose::Purge => "purge",
            Purpose::OpenClaims => "open_claims",
            Purpose::Waits => "waits",
            Purpose::Inbox => "inbox",
            Purpose::Reads => "reads",
            Purpose::Changes => "changes",
        }
    }
}

/// A store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// A description for logs: the kind of store and its location, without secrets.
    fn describe(&self) -> String;

    /// The name of the database system in OpenTelemetry's semantic conventions.
    fn database(&self) -> &'static str;

    /// The number of sessions that the ledger should open for claims.
    fn sessions(&self) -> usize;

    /// Opens a session, and checks that the store can be trusted: it is writable, commits are durable, and the schema serves this
    /// binary. A session for claims is returned only after a test write of it was answered.
    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError>;

    /// The number of orphaned backends, of sessions that were given up, that were still active when this server looked last.
    fn left_behind(&self) -> usize {
        0
    }

    /// How often acknowledged commits were found to be lost when a session was opened.
    fn losses(&self) -> u64 {
        0
    }

    /// Whether commits were lost and no person has accepted the loss: new claims must not be granted then.
    fn withholds_grants(&self) -> bool {
        false
    }

    /// Sets an observer for session rotations: it is called with the purpose of the session, and whether the rotation succeeded.
    /// Only the first call has an effect.
    fn on_session_rotation(&self, _observer: Box<dyn Fn(Purpose, bool) + Send + Sync>) {}

    /// Brings the schema up to this binary's version; returns the number of migrations that were applied. Concurrent calls are
    /// safe.
    async fn migrate(&self) -> Result<usize, StoreError>;

    /// Sets the mark of a clock that has jumped ahead to its present reading, so that grants go on; returns the clock. A running
    /// server sees the mark with its next statement.
    async fn accept_clock(&self) -> Result<StoreTime, StoreError> {
        Err(StoreError::NotApplied(Fault::Permanent("this kind of store does not have its own clock".into())))
    }

    /// Grants a role the rights that a server needs, and no others.
    async fn grant_to(&self, role: &str) -> Result<(), StoreError> {
        Err(StoreError::NotApplied(Fault::Permanent(format!("{role}: this kind of store has no roles"))))
    }
}

/// One connection, owned by one task. Its calls are grouped into seven traits; a task uses those that it needs.
pub trait Session: Send {
    /// Entries by their keys, for claims and settlements.
    fn entries(&mut self) -> &mut dyn Entries;

    /// Background work of a server.
    fn upkeep(&mut self) -> &mut dyn Upkeep;

    /// Reads and changes of operators.
    fn operators(&mut self) -> &mut dyn Operators;

    /// The policies in force.
    fn policy_book(&mut self) -> &mut dyn PolicyBook;

    /// Replay runs.
    fn replay_book(&mut self) -> &mut dyn ReplayBook;

    /// Holds of consumers.
    fn hold_book(&mut self) -> &mut dyn HoldBook;

    /// Messages, and handouts of them.
    fn inbox(&mut self) -> &mut dyn Inbox;
}

/// The number of a state: that of `EntryState`.
#[must_use]
pub fn state_number(state: State) -> i16 {
    numbers::of_state(state).0
}

/// The highest reading of clock + offset that this process has seen, shared by its sessions.
#[derive(Debug, Default)]
struct Mark(AtomicI64);

impl Mark {
    /// The mark, which must be read before a statement is sent: a later reading of a correct clock is not lower.
    fn get(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Raises the mark to a reading, unless the reading is unsound.
    fn raise(&self, reading: &Reading) {
        if !reading.is_sound() {
            return;
        }
        self.0.fetch_max(reading.token_clock(), Ordering::SeqCst);
    }
}

/// Sorts rows into the order of `keys`; `None` for a key without a row.
fn in_order<T, K: std::hash::Hash + Eq>(
    keys: impl Iterator<Item = K>,
    rows: Vec<(K, T)>,
) -> impl Iterator<Item = Option<T>> {
    let mut by_key: std::collections::HashMap<K, T> = rows.into_iter().collect();
    keys.map(move |key| by_key.remove(&key))
}

#[cfg(test)]
mod for_tests;
