//! Connections, and whether what is behind them can be trusted.

use std::str::FromStr;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Row as _};
use tokio::time::timeout;

use super::errors::{of_connect, of_sqlx};
use super::sql;
use crate::store::row::{self, Schema};
use crate::store::{Fault, StoreError};

static MIGRATIONS: Migrator = sqlx::migrate!("migrations/postgres");

/// The oldest server that is supported.
const VERSION_MIN: i32 = 140_000;
/// A host that does not answer must not hold the start or a reconnection for ever.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn options(url: &str) -> Result<PgConnectOptions, String> {
    let options = PgConnectOptions::from_str(url).map_err(|error| error.to_string())?;
    Ok(options.application_name("idempotency-ledger").disable_statement_logging())
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
pub(super) async fn open(options: &PgConnectOptions, serving: bool) -> Result<PgConnection, StoreError> {
    let mut connection = connect(options).await?;
    match timeout(CONNECT_TIMEOUT, check(&mut connection, serving)).await {
        Ok(Ok(())) => Ok(connection),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(unavailable(format!("no answer within {CONNECT_TIMEOUT:?}"))),
    }
}

async fn check(connection: &mut PgConnection, serving: bool) -> Result<(), StoreError> {
    connection.execute(sql::SETTINGS).await.map_err(of_sqlx)?;
    let row = sqlx::query(sql::TRUST).persistent(false).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
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
        tracing::warn!("the server runs with fsync = off: a crash of its machine can lose what was answered");
    }
    if !row.try_get::<bool, _>("migrated").map_err(of_sqlx)? {
        return Err(schema("the database has no ledger yet: run `idempotency-ledger migrate`".into()));
    }
    let found = sqlx::query(sql::SCHEMA).persistent(false).fetch_one(connection).await.map_err(of_sqlx)?;
    let present: i64 = found.try_get("version").map_err(of_sqlx)?;
    match row::schema(&MIGRATIONS, present) {
        Schema::Fits => Ok(()),
        // Migrations keep the version that is running working: whoever serves goes on.
        Schema::Newer(_) if serving => Ok(()),
        Schema::Older(problem) | Schema::Newer(problem) => Err(schema(problem)),
    }
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
