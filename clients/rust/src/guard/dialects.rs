//! What differs between the databases that a guard may be in.

use std::{future::Future, time::Duration};

use sqlx::{Connection, Error, Transaction};

use crate::{calls::Boxed, proto::EntryKey};

/// How long a statement waits for a row of another transaction: far shorter than a lease.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);
/// After this time Postgres ends a statement, or the transaction of a process that stands still.
pub const SILENCE: Duration = Duration::from_secs(10);

/// What a guard row says of its message.
#[derive(Debug)]
pub struct Row<'a> {
    pub(super) key: &'a EntryKey,
    pub(super) idempotency_key: &'a str,
    pub(super) token: i64,
}

/// Consumer, source and id of a guard row, and its result.
pub(super) type Found = ([Vec<u8>; 3], Option<Vec<u8>>);

/// A connection of sqlx to Postgres, `MySQL` (or `MariaDB`) or `SQLite`, by the feature of each. It cannot be implemented
/// elsewhere.
pub trait GuardConnection: Dialect {}

/// The statements of one database.
pub trait Dialect: Connection + Send {
    /// Begins the transaction.
    fn begun(&mut self) -> Boxed<'_, Result<Transaction<'_, Self::Database>, Error>>;

    /// Bounds every wait of the session: a guard that waits for ever is a consumer that stands still.
    fn bound_waits(&mut self) -> impl Future<Output = Result<(), Error>> + Send;

    /// False where the key was there: nothing was written then, and the transaction goes on.
    fn insert_new(&mut self, row: &Row<'_>) -> impl Future<Output = Result<bool, Error>> + Send;

    /// Writes the result; returns how many rows have it now.
    fn keep(&mut self, row: &Row<'_>, result: &[u8]) -> impl Future<Output = Result<u64, Error>> + Send;

    /// The guard row. `None` if there is none.
    fn read(&mut self, row: &Row<'_>) -> impl Future<Output = Result<Option<Found>, Error>> + Send;
}

macro_rules! dialect {
    ($connection:ty, $name:ty, $begins:literal, $waits:literal, $insert:literal, $keep:literal, $read:literal,
     $known:expr) => {
        impl GuardConnection for $connection {}

        impl Dialect for $connection {
            fn begun(&mut self) -> Boxed<'_, Result<Transaction<'_, Self::Database>, Error>> {
                Box::pin(self.begin_with($begins))
            }

            async fn bound_waits(&mut self) -> Result<(), Error> {
                sqlx::raw_sql($waits).execute(self).await.map(drop)
            }

            async fn insert_new(&mut self, row: &Row<'_>) -> Result<bool, Error> {
                let inserted = sqlx::query($insert)
                    .bind(row.idempotency_key)
                    .bind(row.key.replay_run.as_str())
                    .bind(<$name>::from(row.key.consumer.clone()))
                    .bind(<$name>::from(row.key.source.clone()))
                    .bind(<$name>::from(row.key.id.clone()))
                    .bind(row.token)
                    .execute(self)
                    .await;
                let known: fn(&Error) -> bool = $known;
                match inserted {
                    Err(error) if known(&error) => Ok(false),
                    inserted => Ok(inserted?.rows_affected() == 1),
                }
            }

            async fn keep(&mut self, row: &Row<'_>, result: &[u8]) -> Result<u64, Error> {
                let keep = sqlx::query($keep).bind(result.to_vec()).bind(row.idempotency_key);
                Ok(keep.bind(row.key.replay_run.as_str()).execute(self).await?.rows_affected())
            }

            async fn read(&mut self, row: &Row<'_>) -> Result<Option<Found>, Error> {
                let read = sqlx::query_as::<_, ($name, $name, $name, Option<Vec<u8>>)>($read);
                let read = read.bind(row.idempotency_key).bind(row.key.replay_run.as_str());
                let found = read.fetch_optional(self).await?;
                Ok(found.map(|(consumer, source, id, result)| {
                    ([consumer.into(), source.into(), id.into()], result)
                }))
            }
        }
    };
}

// READ COMMITTED: a conflict is seen and then read, though it was committed after this transaction began.
#[cfg(feature = "guard-postgres")]
dialect!(
    sqlx::PgConnection,
    String,
    "BEGIN ISOLATION LEVEL READ COMMITTED",
    "SET lock_timeout = '2s'; SET statement_timeout = '10s'; SET idle_in_transaction_session_timeout = '10s'",
    "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES ($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (idempotency_key, replay_run) DO NOTHING",
    // The cast: a comparison as text would not use the index.
    "UPDATE effect_guard SET result = $1 WHERE idempotency_key = $2::char(36) AND replay_run = $3",
    "SELECT consumer, source, id, result FROM effect_guard WHERE idempotency_key = $1::char(36) AND replay_run = $2",
    |_| false
);

// A plain INSERT, whose error for a duplicate ends the statement alone. INSERT IGNORE would hide values that are cut, and
// the count of ON DUPLICATE KEY UPDATE depends on a flag of the connection.
#[cfg(feature = "guard-mysql")]
dialect!(
    sqlx::MySqlConnection,
    Vec<u8>,
    "START TRANSACTION",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET SESSION innodb_lock_wait_timeout = 2; \
     SET SESSION sql_mode = CONCAT(@@SESSION.sql_mode, ',STRICT_ALL_TABLES')",
    "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES (?, ?, ?, ?, ?, ?)",
    "UPDATE effect_guard SET result = ? WHERE idempotency_key = ? AND replay_run = ?",
    "SELECT consumer, source, id, result FROM effect_guard WHERE idempotency_key = ? AND replay_run = ?",
    |error| {
        let known = error
            .as_database_error()
            .and_then(|error| error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
        known.is_some_and(|error| error.number() == 1062)
    }
);

// BEGIN IMMEDIATE: the one lock of writers is taken, or waited for, before anything is read.
#[cfg(feature = "guard-sqlite")]
dialect!(
    sqlx::SqliteConnection,
    String,
    "BEGIN IMMEDIATE",
    "PRAGMA busy_timeout = 2000",
    "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES (?, ?, ?, ?, ?, ?) \
     ON CONFLICT (idempotency_key, replay_run) DO NOTHING",
    "UPDATE effect_guard SET result = ? WHERE idempotency_key = ? AND replay_run = ?",
    "SELECT consumer, source, id, result FROM effect_guard WHERE idempotency_key = ? AND replay_run = ?",
    |_| false
);
