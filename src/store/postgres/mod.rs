//! The ledger on Postgres, 14 to 18.

mod audit;
mod connection;
mod counting;
mod entries;
mod entry_statements;
mod errors;
mod holds;
mod inbox;
mod inbox_statements;
mod listing;
pub(super) mod migrate;
mod names;
mod open_entries;
mod operators;
mod owner;
mod policies;
mod purge;
mod recent_duplicates;
mod replays;
mod rights;
mod schema_name;
pub(super) mod statement_list;
pub(super) mod statements;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Row as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use super::migrations::{POSTGRES as MIGRATIONS, newest};
use super::schema::still;
use super::{Fault, Purpose, Session, Store, StoreError};
use crate::common::program::program;
use crate::domain::{ClockLimits, KeyHash, StoreTime};
use connection::connect;
use connection::connect::SessionSettings;
use connection::opener::Opener;
use connection::rotation::RotatedSession;
use connection::servers::Servers;
use connection::session::PgSession;
use errors::of_sqlx;
use migrate::MigrationPace;

pub use connection::source::{PostgresSource, UrlSource, WrongSource};
pub use schema_name::SchemaName;

/// Options of the Postgres store.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Server, user and password.
    pub source: PostgresSource,
    /// The schema of the database that holds the ledger.
    pub schema: SchemaName,
    /// The number of sessions for claims.
    pub sessions: usize,
    /// The lifetime of a session, ±10 %, before it is rotated; `None` if sessions are not rotated.
    pub lifetime: Option<Duration>,
    /// How long a statement for claims waits for a lock that another session holds.
    pub lock_wait: Duration,
    /// Whether prepared statements have names.
    pub prepared_statements: bool,
    /// Whether a pooler may run each transaction on another connection (transaction pooling).
    pub transaction_pooling: bool,
    /// The bounds on readings of the database's clock.
    pub clock_limits: ClockLimits,
}

/// The ledger on Postgres.
#[derive(Debug)]
pub struct PostgresStore {
    opener: Arc<Opener>,
    lifetime: Option<Duration>,
}

impl PostgresStore {
    /// Reads the options and the files that they name; does not connect yet.
    ///
    /// # Errors
    /// The fault of the source, without a secret.
    pub fn new(options: &PostgresOptions) -> Result<PostgresStore, WrongSource> {
        let servers = Servers::read(&options.source)?;
        let settings = SessionSettings {
            lock_wait: options.lock_wait,
            pooled: options.transaction_pooling,
            schema: options.schema.clone(),
        };
        // A named prepared statement exists only in one backend.
        let persistent = options.prepared_statements && !settings.pooled;
        let opener = Opener::new(servers, (options.sessions, options.clock_limits), settings, persistent);
        Ok(PostgresStore { opener: Arc::new(opener), lifetime: options.lifetime })
    }

    /// Warns if the connection to another machine does not verify the server's identity: once for each server, at the start of
    /// a command that connects.
    pub fn warn_of_unverified(&self) {
        self.opener.servers().warn_of_unverified();
    }
}

impl PostgresStore {
    /// Brings the schema up to the last of these migrations, as a later binary would; returns the number that were applied.
    ///
    /// # Errors
    /// The error of a migration, or that the time ran out.
    pub async fn migrate_by(&self, migrations: &Migrator, pace: MigrationPace) -> Result<usize, StoreError> {
        let mut connection = connect::open_as_owner(self.opener.servers()).await?;
        migrate::migrate(&mut connection, self.opener.schema(), migrations, pace).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn describe(&self) -> String {
        self.opener.servers().describe()
    }

    fn database(&self) -> &'static str {
        "postgresql"
    }

    fn sessions(&self) -> usize {
        self.opener.sessions()
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let session = self.opener.open(purpose, None).await?;
        Ok(match self.lifetime {
            Some(lifetime) => Box::new(RotatedSession::new(session, &self.opener, lifetime)),
            None => Box::new(session),
        })
    }

    fn left_behind(&self) -> usize {
        self.opener.orphaned_backends()
    }

    fn losses(&self) -> u64 {
        self.opener.losses()
    }

    fn on_session_rotation(&self, observer: Box<dyn Fn(Purpose, bool) + Send + Sync>) {
        self.opener.rotation_counts().set_observer(observer);
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        self.migrate_by(&MIGRATIONS, MigrationPace::default()).await
    }

    async fn accept_clock(&self) -> Result<StoreTime, StoreError> {
        let mut connection = connect::open_as_owner(self.opener.servers()).await?;
        upkeep::accept_clock(&mut connection, self.opener.schema(), self.opener.clock_limits()).await
    }

    async fn grant_to(&self, role: &str) -> Result<(), StoreError> {
        let mut connection = connect::open_as_owner(self.opener.servers()).await?;
        rights::grant(&mut connection, self.opener.schema(), role).await
    }
}

/// One column of many rows, as an array parameter. Long values are borrowed: binding copies them.
fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// One nullable column of many rows, as an array parameter. If all values are null, an empty array is sent, and `unnest` fills it
/// up with nulls.
fn sparse<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> Option<T>) -> Vec<Option<T>> {
    let all = column(rows, value);
    if all.iter().any(Option::is_some) { all } else { Vec::new() }
}

/// One column of many rows, as an array parameter, which often has one value for all rows: that is then sent once. The statement
/// must support that.
fn shared<'r, R, T: PartialEq>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    let mut all = column(rows, value);
    if all.windows(2).all(|pair| pair.first() == pair.last()) {
        all.truncate(1);
    }
    all
}

/// The position of a row in the order of a list; `None` if the columns are null.
fn list_position(row: &PgRow, at: &str, key: &str) -> Result<Option<(StoreTime, KeyHash)>, StoreError> {
    let at: Option<i64> = row.try_get(at).map_err(of_sqlx)?;
    let key: Option<Uuid> = row.try_get(key).map_err(of_sqlx)?;
    Ok(at.map(StoreTime).zip(key))
}

/// Whether the store still serves this binary.
fn serves(row: &PgRow) -> Result<(), StoreError> {
    let serves_from = row.try_get("serves_from").map_err(of_sqlx)?;
    let level = row.try_get("level").map_err(of_sqlx)?;
    still(serves_from, level, newest(&MIGRATIONS)).map_err(StoreError::NotApplied)
}

fn no_meta() -> StoreError {
    StoreError::NotApplied(Fault::Schema(format!("the table `meta` has no row: run `{} migrate`", program())))
}
