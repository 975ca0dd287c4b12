//! The ledger on Postgres, 14 to 18.

mod audit;
mod before_baseline;
mod connect;
mod entries;
mod entry_statements;
mod errors;
mod left_behind;
mod listing;
pub(super) mod migrate;
mod names;
mod operators;
mod policies;
mod purge;
mod quiet;
mod rights;
mod servers;
pub(super) mod statement_list;
pub(super) mod statements;
mod upkeep;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use uuid::Uuid;

use super::dictionary::Dictionary;
use super::migrations::{POSTGRES as MIGRATIONS, newest};
use super::schema::still;
use super::{Entries, Fault, Mark, Operators, PolicyBook, Purpose, Session, Store, StoreError, Upkeep};
use crate::domain::{KeyHash, Reading, StoreTime};
use crate::program::program;
use errors::of_sqlx;
use left_behind::{Backend, LeftBehind};
use migrate::Pace;
use quiet::Quiet;
use servers::Servers;

/// How to reach Postgres.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=…`; several servers as
    /// `host:port,host:port`
    pub url: String,
    /// How many sessions the ledger works with.
    pub sessions: usize,
    /// How long a statement for claims waits for a lock that somebody else holds.
    pub lock_wait: Duration,
    /// Named prepared statements. Off behind `PgBouncer` in transaction mode.
    pub prepared_statements: bool,
}

/// The ledger on Postgres.
#[derive(Debug)]
pub struct PostgresStore {
    servers: Servers,
    sessions: usize,
    lock_wait: Duration,
    persistent: bool,
    mark: Arc<Mark>,
    quiet: Arc<Quiet>,
    left_behind: Arc<LeftBehind>,
    /// Sessions for claims are opened one after the other: two that looked at the same moment would each
    /// leave a backend behind.
    opening: tokio::sync::Mutex<()>,
}

impl PostgresStore {
    /// Reads the options; connects to nothing yet.
    ///
    /// # Errors
    /// What is wrong with the URL, without its password.
    pub fn new(options: &PostgresOptions) -> Result<PostgresStore, String> {
        Ok(PostgresStore {
            servers: Servers::parse(&options.url)?,
            sessions: options.sessions,
            lock_wait: options.lock_wait,
            persistent: options.prepared_statements,
            mark: Arc::default(),
            quiet: Arc::default(),
            left_behind: Arc::default(),
            opening: tokio::sync::Mutex::default(),
        })
    }
}

impl PostgresStore {
    /// Brings the schema up to the last of these migrations, which is how a later binary migrates; says how many
    /// were applied.
    ///
    /// # Errors
    /// What one of them failed of, or that the time was over.
    pub async fn migrate_by(&self, migrations: &Migrator, pace: Pace) -> Result<usize, StoreError> {
        let mut connection = connect::open_as_owner(&self.servers).await?;
        migrate::migrate(&mut connection, migrations, pace).await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn describe(&self) -> String {
        self.servers.describe()
    }

    fn database(&self) -> &'static str {
        "postgresql"
    }

    fn sessions(&self) -> usize {
        self.sessions
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let claims = purpose == Purpose::Claims;
        let _one_at_a_time = if claims { Some(self.opening.lock().await) } else { None };
        let (connection, backend) = connect::open(&self.servers, purpose, self.lock_wait).await?;
        let left_max = if claims { self.sessions } else { 1 };
        let connection = self.left_behind.admit(connection, purpose, left_max).await?;
        let mut session = PgSession {
            connection,
            purpose,
            backend,
            left_behind: Arc::clone(&self.left_behind),
            persistent: self.persistent,
            mark: Arc::clone(&self.mark),
            quiet: Arc::clone(&self.quiet),
            dictionary: Dictionary::default(),
            marked_last: 0,
        };
        // A promoted database may have lost commits: take over what it has written down.
        let loaded = session.load(&[]).await?;
        if claims {
            connect::prove(&mut session.connection).await?;
        }
        self.mark.0.fetch_max(loaded.reading.mark, Ordering::SeqCst);
        Ok(Box::new(session))
    }

    fn left_behind(&self) -> usize {
        self.left_behind.at_work()
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        self.migrate_by(&MIGRATIONS, Pace::default()).await
    }

    async fn grant_to(&self, role: &str) -> Result<(), StoreError> {
        let mut connection = connect::open_as_owner(&self.servers).await?;
        rights::grant(&mut connection, role).await
    }
}

/// One connection.
struct PgSession {
    connection: PgConnection,
    purpose: Purpose,
    backend: Backend,
    left_behind: Arc<LeftBehind>,
    persistent: bool,
    mark: Arc<Mark>,
    quiet: Arc<Quiet>,
    dictionary: Dictionary,
    /// The last consumer whose open claims were marked; 0: all were.
    marked_last: i32,
}

impl PgSession {
    fn query(&self, statement: &'static str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(statement).persistent(self.persistent)
    }

    fn reading(&self, row: &PgRow, mark: i64) -> Result<Reading, StoreError> {
        let reading = Reading {
            now: StoreTime(row.try_get("clock_now").map_err(of_sqlx)?),
            token_offset: row.try_get("token_offset").map_err(of_sqlx)?,
            mark: mark.max(row.try_get("clock_mark").map_err(of_sqlx)?),
        };
        self.mark.raise(&reading);
        Ok(reading)
    }
}

impl Drop for PgSession {
    /// The connection closes without a word, so that nothing is cancelled.
    fn drop(&mut self) {
        self.left_behind.add(self.purpose, self.backend);
    }
}

impl Session for PgSession {
    fn entries(&mut self) -> &mut dyn Entries {
        self
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        self
    }

    fn operators(&mut self) -> &mut dyn Operators {
        self
    }

    fn policy_book(&mut self) -> &mut dyn PolicyBook {
        self
    }
}

/// One column of many rows, as Postgres takes it. What is long is not copied: binding does that.
fn column<'r, R, T>(rows: &'r [R], value: impl Fn(&'r R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
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
    StoreError::NotApplied(Fault::Schema(format!("ledger.meta has no row: run `{} migrate`", program())))
}
