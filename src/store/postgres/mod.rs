//! The ledger on Postgres, 14 to 18.

mod audit;
mod connection;
mod counting;
mod entries;
mod entry_statements;
mod errors;
mod holds;
mod listing;
pub(super) mod migrate;
mod names;
mod operators;
mod owner;
mod policies;
mod purge;
mod quiet;
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
use connection::connect::How;
use connection::opener::Opener;
use connection::rotation::Renewed;
use connection::servers::Servers;
use connection::session::PgSession;
use errors::of_sqlx;
use migrate::Pace;

pub use connection::source::{PostgresSource, UrlSource, WrongSource};
pub use schema_name::SchemaName;

/// How to reach Postgres.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Where it is, and who connects.
    pub source: PostgresSource,
    /// Which schema of the database holds the ledger.
    pub schema: SchemaName,
    /// How many sessions the ledger works with.
    pub sessions: usize,
    /// How long a session lives, give or take a tenth, before it is replaced; none: for ever.
    pub lifetime: Option<Duration>,
    /// How long a statement for claims waits for a lock that somebody else holds.
    pub lock_wait: Duration,
    /// Whether prepared statements have names.
    pub prepared_statements: bool,
    /// Whether a pooler gives each transaction another connection.
    pub transaction_pooling: bool,
    /// What the database's clock may show.
    pub clock_limits: ClockLimits,
}

/// The ledger on Postgres.
#[derive(Debug)]
pub struct PostgresStore {
    opener: Arc<Opener>,
    lifetime: Option<Duration>,
}

impl PostgresStore {
    /// Reads the options and the files that they name; connects to nothing yet.
    ///
    /// # Errors
    /// What is wrong with the source, without a secret.
    pub fn new(options: &PostgresOptions) -> Result<PostgresStore, WrongSource> {
        let servers = Servers::read(&options.source)?;
        let how = How {
            lock_wait: options.lock_wait,
            pooled: options.transaction_pooling,
            schema: options.schema.clone(),
        };
        // A name is known to one backend.
        let persistent = options.prepared_statements && !how.pooled;
        let opener = Opener::new(servers, (options.sessions, options.clock_limits), how, persistent);
        Ok(PostgresStore { opener: Arc::new(opener), lifetime: options.lifetime })
    }

    /// Warns of a way to another machine that does not verify who answers: once for each server, at the start of a
    /// command that connects.
    pub fn warn_of_unverified(&self) {
        self.opener.servers().warn_of_unverified();
    }
}

impl PostgresStore {
    /// Brings the schema up to the last of these migrations, which is how a later binary migrates; says how many
    /// were applied.
    ///
    /// # Errors
    /// What one of them failed of, or that the time was over.
    pub async fn migrate_by(&self, migrations: &Migrator, pace: Pace) -> Result<usize, StoreError> {
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
            Some(lifetime) => Box::new(Renewed::new(session, &self.opener, lifetime)),
            None => Box::new(session),
        })
    }

    fn left_behind(&self) -> usize {
        self.opener.left_behind()
    }

    fn losses(&self) -> u64 {
        self.opener.losses()
    }

    fn tell_of_replaced(&self, told: Box<dyn Fn(Purpose, bool) + Send + Sync>) {
        self.opener.replaced().tell(told);
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        self.migrate_by(&MIGRATIONS, Pace::default()).await
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

/// One column of many rows, as Postgres takes it. What is long is not copied: binding does that.
fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

/// The same of a column that may be empty: where all of it is, no value is sent, and `unnest` fills it up.
fn sparse<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> Option<T>) -> Vec<Option<T>> {
    let all = column(rows, value);
    if all.iter().any(Option::is_some) { all } else { Vec::new() }
}

/// The same of a column that all rows often share: then its value is sent once. The statement must know of that.
fn shared<'r, R, T: PartialEq>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    let mut all = column(rows, value);
    if all.windows(2).all(|pair| pair.first() == pair.last()) {
        all.truncate(1);
    }
    all
}

/// Where a row stands in the order of a list; none where the statement found none.
fn place(row: &PgRow, at: &str, key: &str) -> Result<Option<(StoreTime, KeyHash)>, StoreError> {
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
