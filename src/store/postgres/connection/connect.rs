//! Connections, and whether what is behind them can be trusted.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::{ConnectOptions as _, Executor, Postgres, Row as _};
use tokio::time::timeout;

use crate::common::log_limit::warn_once_a_second;
use crate::common::program::program;
use crate::store::migrations::{POSTGRES as MIGRATIONS, newest};
use crate::store::postgres::connection::backend::Backend;
use crate::store::postgres::connection::link::Link;
use crate::store::postgres::connection::servers::Servers;
use crate::store::postgres::errors::{of_connect, of_sqlx};
use crate::store::postgres::schema_name::SchemaName;
use crate::store::postgres::statements as sql;
use crate::store::schema::Standing;
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

/// A database for the ledger. The order of the language C is there wherever Postgres is, and never changes: an index
/// on texts is not spoiled by a newer library of the system.
const RIGHT_DATABASE: &str =
    "CREATE DATABASE ledger TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C';";

/// How sessions work with the database.
#[derive(Clone, Debug)]
pub(in crate::store::postgres) struct How {
    /// How long a statement for claims waits for a lock.
    pub(in crate::store::postgres) lock_wait: Duration,
    /// A pooler gives each transaction another connection.
    pub(in crate::store::postgres) pooled: bool,
    /// Which schema holds the ledger.
    pub(in crate::store::postgres) schema: SchemaName,
}

/// Who is at the other end of a connection.
pub(in crate::store::postgres) struct Peer {
    pub(in crate::store::postgres) backend: Backend,
    /// Microseconds by the server's clock: two servers differ in it.
    pub(in crate::store::postgres) server_started: i64,
}

async fn connect(options: &PgConnectOptions, within: Duration) -> Result<PgConnection, StoreError> {
    match timeout(within, options.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(of_connect(&error)),
        Err(_) => Err(unavailable(format!("no connection within {within:?}"))),
    }
}

/// A connection whose commits are durable, to a writable primary with a schema that serves this binary. However
/// many servers are named, it takes no longer. One that shall stay with a server is to none but that.
pub(in crate::store::postgres) async fn open(
    servers: &Servers,
    purpose: Purpose,
    how: &How,
    stays_with: Option<i64>,
) -> Result<(Link, Peer), StoreError> {
    let within = CONNECT_TIMEOUT / servers.count();
    servers
        .first_that(|options| async move {
            let options = options.application_name(application_name(purpose));
            let connection = connect(&options, within).await?;
            match timeout(within, check(connection, purpose, how)).await {
                Ok(Ok((_, peer))) if stays_with.is_some_and(|server| server != peer.server_started) => {
                    Err(unavailable("another server answers than the one that the session is with".into()))
                }
                Ok(Ok(checked)) => Ok(checked),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(unavailable(format!("no answer within {within:?}"))),
            }
        })
        .await
}

/// A connection to the writable primary for what makes the schema.
pub(in crate::store::postgres) async fn open_as_owner(servers: &Servers) -> Result<PgConnection, StoreError> {
    let within = CONNECT_TIMEOUT / servers.count();
    servers
        .first_that(|options| async move {
            let options = options.application_name("idempotency-ledger migrate");
            let mut connection = connect(&options, within).await?;
            let prepared = async {
                connection.execute(sqlx::raw_sql(sql::NO_STATEMENT_TIMEOUT)).await.map_err(of_sqlx)?;
                writable(&mut connection).await?;
                let settings = format!("{}; {}", sql::OWNER_SETTINGS, sql::NO_TRANSACTION_TIMEOUT);
                let settings = sqlx::raw_sql(sqlx::AssertSqlSafe(settings));
                connection.execute(settings).await.map_err(of_sqlx)
            };
            match timeout(within, prepared).await {
                Ok(Ok(_)) => Ok(connection),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(unavailable(format!("no answer within {within:?}"))),
            }
        })
        .await
}

/// What `pg_stat_activity` shows.
fn application_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Claims => "idempotency-ledger claims",
        Purpose::Heartbeat => "idempotency-ledger heartbeat",
        Purpose::Purge => "idempotency-ledger purge",
        Purpose::OpenClaims => "idempotency-ledger open claims",
        Purpose::Waits => "idempotency-ledger waits",
        Purpose::Reads => "idempotency-ledger reads",
        Purpose::Changes => "idempotency-ledger changes",
    }
}

/// How long statements may run and wait for a lock. What the server ends was certainly not applied, so it
/// must end a statement before the session that waits for it is given up. Behind a pooler a transaction waits no longer
/// for its next statement than it would for the end of one: a server that stands still there holds its rows.
fn bounds(purpose: Purpose, how: &How) -> String {
    let (lock, statement) = match purpose {
        Purpose::Claims | Purpose::Heartbeat | Purpose::Waits => (how.lock_wait, HOT_STATEMENT_TIMEOUT),
        Purpose::Purge | Purpose::OpenClaims | Purpose::Reads | Purpose::Changes => {
            (LOCK_TIMEOUT, STATEMENT_TIMEOUT)
        }
    };
    let (lock, statement) = (lock.as_millis(), statement.as_millis());
    let bounds = format!("SET lock_timeout = {lock}; SET statement_timeout = {statement}");
    let idle = format!("; SET idle_in_transaction_session_timeout = {statement}");
    if how.pooled { bounds + &idle } else { bounds }
}

/// Sends a write, and waits for its answer: where commits do not end, no work is sent.
pub(in crate::store::postgres) async fn prove(connection: &mut Link) -> Result<(), StoreError> {
    match timeout(PROVE_TIMEOUT, connection.execute(sqlx::raw_sql(sql::PROVE))).await {
        Ok(done) => done.map(drop).map_err(of_sqlx),
        Err(_) => Err(unavailable(format!("a write was not answered within {PROVE_TIMEOUT:?}"))),
    }
}

/// A connection with its settings.
async fn linked(mut connection: PgConnection, purpose: Purpose, how: &How) -> Result<Link, StoreError> {
    let settings = format!("{}; {}", sql::SETTINGS, bounds(purpose, how));
    if how.pooled {
        return Ok(Link::to_pooler(connection, how.schema.clone(), &settings));
    }
    let settings = format!("{settings}; {}", sql::NO_TRANSACTION_TIMEOUT);
    let watched = sqlx::AssertSqlSafe(format!("{settings}; {}", sql::WATCHES));
    if let Err(error) = connection.execute(sqlx::raw_sql(watched)).await {
        // Not every server takes all of those that watch over the connection.
        tracing::debug!(%error, "the server does not watch over this connection");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(settings))).await.map_err(of_sqlx)?;
    }
    Ok(Link::to_backend(connection, how.schema.clone()))
}

async fn check(connection: PgConnection, purpose: Purpose, how: &How) -> Result<(Link, Peer), StoreError> {
    // Each statement is sent as text, which takes one round trip instead of two: a session that comes back soon
    // is worth it.
    let mut link = linked(connection, purpose, how).await?;
    let row = writable(&mut link).await?;
    link.keep("synchronous_commit", &durable(&row)?);
    if !row.try_get::<bool, _>("migrated").map_err(of_sqlx)? {
        return Err(schema(format!(
            "the database has no ledger of this version yet in the schema `{}`: run `{} migrate`",
            how.schema,
            program()
        )));
    }
    let found = sqlx::raw_sql(sql::SCHEMA).fetch_one(&mut link).await.map_err(of_sqlx)?;
    let standing = Standing {
        version: found.try_get("version").map_err(of_sqlx)?,
        serves_from: found.try_get("serves_from").map_err(of_sqlx)?,
        level: found.try_get("level").map_err(of_sqlx)?,
    };
    standing.check(newest(&MIGRATIONS)).map_err(StoreError::NotApplied)?;
    let pid = row.try_get("pid").map_err(of_sqlx)?;
    let backend = Backend { pid, started: row.try_get("started").map_err(of_sqlx)? };
    if !how.pooled {
        link.at_work().set(Some(backend));
    }
    let server_started = row.try_get("server_started").map_err(of_sqlx)?;
    Ok((link, Peer { backend, server_started }))
}

/// What the server says of itself, if it is one that takes writes.
async fn writable<'c>(connection: impl Executor<'c, Database = Postgres>) -> Result<PgRow, StoreError> {
    let row = sqlx::raw_sql(sql::TRUST).fetch_one(connection).await.map_err(of_sqlx)?;
    let version: i32 = row.try_get("version").map_err(of_sqlx)?;
    if version < VERSION_MIN {
        return Err(schema(format!(
            "the server is Postgres {}; the ledger needs 14 or newer",
            version / 10_000
        )));
    }
    keeps_texts(&row)?;
    if row.try_get("read_only").map_err(of_sqlx)? {
        return Err(unavailable("the server is read-only: a standby, or set so".into()));
    }
    Ok(row)
}

/// Whether the database takes every text of a caller, and is not copied into others.
fn keeps_texts(row: &PgRow) -> Result<(), StoreError> {
    let encoding: String = row.try_get("encoding").map_err(of_sqlx)?;
    let database: String = row.try_get("database").map_err(of_sqlx)?;
    if encoding != "UTF8" {
        return Err(schema(format!(
            "the database {database} has the encoding {encoding}, which does not hold every text of a caller; the encoding \
             of a database cannot be changed: {RIGHT_DATABASE} and name that one in database_url"
        )));
    }
    if row.try_get("template").map_err(of_sqlx)? {
        return Err(schema(format!(
            "the database {database} is a template: later databases of this server would be copies of the ledger; \
             {RIGHT_DATABASE} and name that one in database_url"
        )));
    }
    Ok(())
}

/// Whether commits outlive a crash, and a failover: what `synchronous_commit` is where they do.
fn durable(row: &PgRow) -> Result<String, StoreError> {
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
    Ok(synchronous_commit)
}

pub(in crate::store::postgres) fn unavailable(text: String) -> StoreError {
    StoreError::NotApplied(Fault::Unavailable(text))
}

pub(in crate::store::postgres) fn schema(text: String) -> StoreError {
    StoreError::NotApplied(Fault::Schema(text))
}
