//! Connections, and whether what is behind them can be trusted.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _};
use tokio::time::timeout;

use super::errors::{of_connect, of_sqlx};
use super::left_behind::Backend;
use super::statements as sql;
use crate::once_a_second::warn_once_a_second;
use crate::program::program;
use crate::store::migrations::POSTGRES as MIGRATIONS;
use crate::store::schema::Schema;
use crate::store::{Fault, Purpose, StoreError};

/// The oldest server that is supported.
const VERSION_MIN: i32 = 140_000;
/// A host that does not answer must not hold the start or a reconnection for ever.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a statement for claims or the heartbeat may run.
const HOT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long any other statement may run.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long any other statement may wait for a lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Like a statement for claims, whose session is given up after this.
const PROVE_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn options(url: &str) -> Result<PgConnectOptions, String> {
    let options = PgConnectOptions::from_str(url).map_err(|error| error.to_string())?;
    Ok(options.disable_statement_logging())
}

pub(super) fn describe(options: &PgConnectOptions) -> String {
    let host =
        options.get_socket().map_or_else(|| options.get_host().to_owned(), |path| path.display().to_string());
    let tls = match options.get_ssl_mode() {
        PgSslMode::Disable => "disable",
        PgSslMode::Allow => "allow",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
    };
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    format!("Postgres database {database} on {host}:{} (sslmode={tls})", options.get_port())
}

async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    match timeout(CONNECT_TIMEOUT, options.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(of_connect(&error)),
        Err(_) => Err(unavailable(format!("no connection within {CONNECT_TIMEOUT:?}"))),
    }
}

/// A connection whose commits are durable, to a writable primary with the right schema; a process
/// that is `serving` already accepts a newer one.
pub(super) async fn open(
    options: &PgConnectOptions,
    purpose: Purpose,
    lock_wait: Duration,
    serving: bool,
) -> Result<(PgConnection, Backend), StoreError> {
    let options = options.clone().application_name(application_name(purpose));
    let mut connection = connect(&options).await?;
    match timeout(CONNECT_TIMEOUT, check(&mut connection, purpose, lock_wait, serving)).await {
        Ok(Ok(backend)) => Ok((connection, backend)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(unavailable(format!("no answer within {CONNECT_TIMEOUT:?}"))),
    }
}

/// What `pg_stat_activity` shows.
fn application_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Claims => "idempotency-ledger claims",
        Purpose::Heartbeat => "idempotency-ledger heartbeat",
        Purpose::Purge => "idempotency-ledger purge",
        Purpose::OpenClaims => "idempotency-ledger open claims",
        Purpose::Reads => "idempotency-ledger reads",
        Purpose::Changes => "idempotency-ledger changes",
    }
}

/// How long statements may run and wait for a lock. What the server ends was certainly not applied, so it
/// must end a statement before the session that waits for it is given up.
fn bounds(purpose: Purpose, lock_wait: Duration) -> String {
    let (lock, statement) = match purpose {
        Purpose::Claims | Purpose::Heartbeat => (lock_wait, HOT_STATEMENT_TIMEOUT),
        Purpose::Purge | Purpose::OpenClaims | Purpose::Reads | Purpose::Changes => {
            (LOCK_TIMEOUT, STATEMENT_TIMEOUT)
        }
    };
    format!("SET lock_timeout = {}; SET statement_timeout = {}", lock.as_millis(), statement.as_millis())
}

/// Sends a write, and waits for its answer: where commits do not end, no work is sent.
pub(super) async fn prove(connection: &mut PgConnection) -> Result<(), StoreError> {
    match timeout(PROVE_TIMEOUT, connection.execute(sqlx::raw_sql(sql::PROVE))).await {
        Ok(done) => done.map(drop).map_err(of_sqlx),
        Err(_) => Err(unavailable(format!("a write was not answered within {PROVE_TIMEOUT:?}"))),
    }
}

async fn check(
    connection: &mut PgConnection,
    purpose: Purpose,
    lock_wait: Duration,
    serving: bool,
) -> Result<Backend, StoreError> {
    // Each statement is sent as text, which takes one round trip instead of two: a session that comes back soon
    // is worth it.
    let settings = format!("{}; {}", sql::SETTINGS, bounds(purpose, lock_wait));
    let watched = sqlx::AssertSqlSafe(format!("{settings}; {}", sql::WATCHES));
    if let Err(error) = connection.execute(sqlx::raw_sql(watched)).await {
        // Not every server takes all of those that watch over the connection.
        tracing::debug!(%error, "the server does not watch over this connection");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(settings))).await.map_err(of_sqlx)?;
    }
    let row = sqlx::raw_sql(sql::TRUST).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
    let version: i32 = row.try_get("version").map_err(of_sqlx)?;
    if version < VERSION_MIN {
        return Err(schema(format!(
            "the server is Postgres {}; the ledger needs 14 or newer",
            version / 10_000
        )));
    }
    if row.try_get("read_only").map_err(of_sqlx)? {
        return Err(unavailable("the server is read-only: a standby, or set so".into()));
    }
    let synchronous_commit: String = row.try_get("synchronous_commit").map_err(of_sqlx)?;
    if synchronous_commit == "off" {
        return Err(schema(
            "synchronous_commit is off, so commits could be lost after they were answered: set it to on, at \
             least for this role (ALTER ROLE … SET synchronous_commit = on)"
                .into(),
        ));
    }
    let standbys: String = row.try_get("standbys").map_err(of_sqlx)?;
    if synchronous_commit == "local" && !standbys.is_empty() {
        return Err(schema(
            "synchronous_standby_names is set but synchronous_commit is local, so a failover could lose commits \
             after they were answered: set it to on, at least for this role"
                .into(),
        ));
    }
    if !row.try_get::<bool, _>("fsync").map_err(of_sqlx)? {
        warn_once_a_second!(
            "the server runs with fsync = off: a crash of its machine can lose what was answered"
        );
    }
    if !row.try_get::<bool, _>("migrated").map_err(of_sqlx)? {
        return Err(schema(format!("the database has no ledger yet: run `{} migrate`", program())));
    }
    let found = sqlx::raw_sql(sql::SCHEMA).fetch_one(connection).await.map_err(of_sqlx)?;
    let present: i64 = found.try_get("version").map_err(of_sqlx)?;
    match Schema::of(&MIGRATIONS, present) {
        Schema::Fits => {}
        // Migrations keep the version that is running working: whoever serves goes on.
        Schema::Newer(_) if serving => {}
        Schema::Older(problem) | Schema::Newer(problem) => return Err(schema(problem)),
    }
    let pid = row.try_get("pid").map_err(of_sqlx)?;
    Ok(Backend { pid, started: row.try_get("started").map_err(of_sqlx)? })
}

pub(super) async fn migrate(options: &PgConnectOptions) -> Result<usize, StoreError> {
    let mut connection = connect(options).await?;
    let before = applied(&mut connection).await;
    MIGRATIONS.run_direct(None, &mut connection, false).await.map_err(|error| schema(error.to_string()))?;
    let after = applied(&mut connection).await;
    let _closed = connection.close().await;
    Ok(after.saturating_sub(before))
}

async fn applied(connection: &mut PgConnection) -> usize {
    let row = sqlx::query(sql::SCHEMA).persistent(false).fetch_one(connection).await;
    row.ok()
        .and_then(|row| row.try_get::<i64, _>("version").ok())
        .map_or(0, |version| usize::try_from(version).unwrap_or(0))
}

fn unavailable(text: String) -> StoreError {
    StoreError::NotApplied(Fault::Unavailable(text))
}

fn schema(text: String) -> StoreError {
    StoreError::NotApplied(Fault::Schema(text))
}
