//! The disk: loads entries by key, and writes them back where the version is still the expected
//! one. It knows no rules.
//!
//! A [`Store`] opens [`Session`]s. A session is one connection that one long-lived task owns: no
//! request's future ever holds it, so that a client that goes away cannot leave a statement half
//! done. Each write is one autocommit statement (Postgres) or one transaction (`SQLite`), sorted by
//! key, and is durable when the call returns.

mod clock;
mod columns;
mod dictionary;
mod entries;
mod error;
mod from_row;
mod history;
mod holds;
mod ids;
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
#[doc(hidden)]
pub use measured::{MeasuredRow, MeasuredRows};
pub use operators::{LeftAlone, OffsetRaise, Operators, PartDigests, Write, WriteResult};
pub use policies::{EffectiveRetention, PolicyBook};
pub use postgres::migrate::Pace as MigrationPace;
pub use postgres::statement_list::ALL as POSTGRES_STATEMENTS;
pub use postgres::statements::SETTINGS as POSTGRES_SETTINGS;
pub use postgres::{PostgresOptions, PostgresSource, PostgresStore, SchemaName, UrlSource, WrongSource};
pub use replays::{REPLAY_LEVEL, ReplayBook};
pub use schema::{LEVEL, SCHEMA};
pub use sqlite::statement_list::ALL as SQLITE_STATEMENTS;
pub use sqlite::{Copied, SqliteStore};
pub use upkeep::{Created, PurgePlace, PurgeTurn, Replica, TURN_MAX, Upkeep};

/// How many rows one statement carries at the most.
pub const ROWS_MAX: usize = 1_000;

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
    /// The keys for which calls wait.
    Waits,
    /// What operators read.
    Reads,
    /// What operators change; also what a server changes at its start.
    Changes,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 7] = [
        Purpose::Claims,
        Purpose::Heartbeat,
        Purpose::Purge,
        Purpose::OpenClaims,
        Purpose::Waits,
        Purpose::Reads,
        Purpose::Changes,
    ];

    /// As metrics call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Purpose::Claims => "claims",
            Purpose::Heartbeat => "heartbeat",
            Purpose::Purge => "purge",
            Purpose::OpenClaims => "open_claims",
            Purpose::Waits => "waits",
            Purpose::Reads => "reads",
            Purpose::Changes => "changes",
        }
    }
}

/// A store.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// For people: what kind of store, and where; without secrets.
    fn describe(&self) -> String;

    /// What kind of database it is, by the name that OpenTelemetry's conventions have for it.
    fn database(&self) -> &'static str;

    /// How many sessions the ledger should work with.
    fn sessions(&self) -> usize;

    /// Opens a session, and checks that the store can be trusted: it is writable, commits are
    /// durable, and the schema serves this binary. A session for claims is handed
    /// out only after a write of its own was answered.
    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError>;

    /// How many backends were still at work for sessions that were given up, when this server looked last.
    fn left_behind(&self) -> usize {
        0
    }

    /// How often it had lost what had been acknowledged, when a session was opened.
    fn losses(&self) -> u64 {
        0
    }

    /// Whether it has lost commits, and no person has accepted that: nothing new may be granted then.
    fn withholds_grants(&self) -> bool {
        false
    }

    /// Who is told of each session that was to be replaced since its time was over, and whether it was: the first one
    /// that is named.
    fn tell_of_replaced(&self, _told: Box<dyn Fn(Purpose, bool) + Send + Sync>) {}

    /// Brings the schema up to this binary's version; says how many migrations were applied. Several at the same
    /// time do no harm.
    async fn migrate(&self) -> Result<usize, StoreError>;

    /// Takes the present reading of a clock that has jumped ahead for its mark, so that grants go on; the clock. A running
    /// server sees the mark with its next statement.
    async fn accept_clock(&self) -> Result<StoreTime, StoreError> {
        Err(StoreError::NotApplied(Fault::Permanent("this kind of store has no clock of its own".into())))
    }

    /// Gives a role what a server needs, and nothing else.
    async fn grant_to(&self, role: &str) -> Result<(), StoreError> {
        Err(StoreError::NotApplied(Fault::Permanent(format!("{role}: this kind of store has no roles"))))
    }
}

/// One connection, owned by one task, in six parts. A task uses those that it needs.
pub trait Session: Send {
    /// Entries by their keys: what claims and settlements need.
    fn entries(&mut self) -> &mut dyn Entries;

    /// What a server does by itself.
    fn upkeep(&mut self) -> &mut dyn Upkeep;

    /// What operators read and change.
    fn operators(&mut self) -> &mut dyn Operators;

    /// The policies that are in force.
    fn policy_book(&mut self) -> &mut dyn PolicyBook;

    /// Replay runs.
    fn replay_book(&mut self) -> &mut dyn ReplayBook;

    /// Holds of consumers.
    fn hold_book(&mut self) -> &mut dyn HoldBook;
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
    /// To be read before a statement is sent: a later reading cannot rightly be lower.
    fn get(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    /// A reading that is not sound is not what a later one is judged by.
    fn raise(&self, reading: &Reading) {
        if !reading.is_sound() {
            return;
        }
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
