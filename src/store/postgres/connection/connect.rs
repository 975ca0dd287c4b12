//! Opens connections, and checks that the server can be trusted: version, encoding, writability and durable commits.

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
/// Bounds a connection attempt: a host that does not answer must not block the start or a reconnection for ever.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// `statement_timeout` of claims, the heartbeat and waits.
const HOT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// `statement_timeout` of all other sessions.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// `lock_timeout` of all other sessions.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// Bounds [`prove`], like a statement for claims: its session is given up after this time.
const PROVE_TIMEOUT: Duration = Duration::from_secs(3);

/// The statement that error messages suggest to create a suitable database. Every Postgres server has the collation `C`, whose
/// order never changes: an upgrade of the operating system's C library cannot corrupt an index on text columns.
const CREATE_DATABASE: &str =
    "CREATE DATABASE ledger TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C';";

/// Settings of the sessions of one store.
#[derive(Clone, Debug)]
pub(in crate::store::postgres) struct SessionSettings {
    /// `lock_timeout` of claims, the heartbeat and waits.
    pub(in crate::store::postgres) lock_wait: Duration,
    /// Whether a pooler may run each transaction on another connection (transaction pooling).
    pub(in crate::store::postgres) pooled: bool,
    /// The schema that holds the ledger's tables.
    pub(in crate::store::postgres) schema: SchemaName,
}

/// The backend and the server at the other end of a connection.
pub(in crate::store::postgres) struct Peer {
    pub(in crate::store::postgres) backend: Backend,
    /// When the server was started, in microseconds by its clock. It identifies a server: two servers differ in it.
    pub(in crate::store::postgres) server_started: i64,
}

async fn connect(options: &PgConnectOptions, within: Duration) -> Result<PgConnection, StoreError> {
    match timeout(within, options.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(of_connect(&error)),
        Err(_) => Err(unavailable(format!("no connection within {within:?}"))),
    }
}

/// Opens a connection to a writable primary with durable commits and a schema that serves this binary. All configured
/// servers share [`CONNECT_TIMEOUT`]. With `same_server`, only the server that was started then is accepted.
pub(in crate::store::postgres) async fn open(
    servers: &Servers,
    purpose: Purpose,
    settings: &SessionSettings,
    same_server: Option<i64>,
) -> Result<(Link, Peer), StoreError> {
    let within = CONNECT_TIMEOUT / servers.count();
    servers
        .first_that(|options| async move {
            let options = options.application_name(application_name(purpose));
            let connection = connect(&options, within).await?;
            match timeout(within, check(connection, purpose, settings)).await {
                Ok(Ok((_, peer))) if same_server.is_some_and(|server| server != peer.server_started) => {
                    Err(unavailable("another server answers than the one that the session is with".into()))
                }
                Ok(Ok(checked)) => Ok(checked),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(unavailable(format!("no answer within {within:?}"))),
            }
        })
        .await
}

/// Opens a connection to the writable primary for migrations and other changes by the schema's owner.
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

/// `application_name`, as `pg_stat_activity` shows it.
fn application_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Claims => "idempotency-ledger claims",
        Purpose::Heartbeat => "idempotency-ledger heartbeat",
        Purpose::Purge => "idempotency-ledger purge",
        Purpose::OpenClaims => "idempotency-ledger open claims",
        Purpose::Waits => "idempotency-ledger waits",
        Purpose::Inbox => "idempotency-ledger inbox",
        Purpose::Reads => "idempotency-ledger reads",
        Purpose::Changes => "idempotency-ledger changes",
    }
}

/// Timeouts for statements and locks. A statement that Postgres itself cancels was certainly not applied, so these timeouts
/// are shorter than those after which a session is given up. Behind a pooler, an idle transaction is bounded like a
/// statement: a stalled server would otherwise keep its row locks.
fn bounds(purpose: Purpose, settings: &SessionSettings) -> String {
    let (lock, statement) = match purpose {
        Purpose::Claims | Purpose::Heartbeat | Purpose::Waits | Purpose::Inbox => {
            (settings.lock_wait, HOT_STATEMENT_TIMEOUT)
        }
        Purpose::Purge | Purpose::OpenClaims | Purpose::Reads | Purpose::Changes => {
            (LOCK_TIMEOUT, STATEMENT_TIMEOUT)
        }
    };
    let (lock, statement) = (lock.as_millis(), statement.as_millis());
    let bounds = format!("SET lock_timeout = {lock}; SET statement_timeout = {statement}");
    let idle = format!("; SET idle_in_transaction_session_timeout = {statement}");
    let bounds = if settings.pooled { bounds + &idle } else { bounds };
    if purpose == Purpose::Inbox { format!("{bounds}; {}", sql::INBOX_SETTINGS) } else { bounds }
}

/// Commits a write that touches no row, and waits for the answer: a server whose commits hang is sent no work.
pub(in crate::store::postgres) async fn prove(connection: &mut Link) -> Result<(), StoreError> {
    match timeout(PROVE_TIMEOUT, connection.execute(sqlx::raw_sql(sql::PROVE))).await {
        Ok(done) => done.map(drop).map_err(of_sqlx),
        Err(_) => Err(unavailable(format!("a write was not answered within {PROVE_TIMEOUT:?}"))),
    }
}

/// Applies the settings to a new connection.
async fn configure(
    mut connection: PgConnection,
    purpose: Purpose,
    settings: &SessionSettings,
) -> Result<Link, StoreError> {
    let statements = format!("{}; {}", sql::SETTINGS, bounds(purpose, settings));
    if settings.pooled {
        return Ok(Link::to_pooler(connection, settings.schema.clone(), &statements));
    }
    let statements = format!("{statements}; {}", sql::NO_TRANSACTION_TIMEOUT);
    let watched = sqlx::AssertSqlSafe(format!("{statements}; {}", sql::WATCHES));
    if let Err(error) = connection.execute(sqlx::raw_sql(watched)).await {
        // Not every operating system supports all keepalive settings.
        tracing::debug!(%error, "the server does not support keepalive settings for this connection");
        connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(statements))).await.map_err(of_sqlx)?;
    }
    Ok(Link::to_backend(connection, settings.schema.clone()))
}

async fn check(
    connection: PgConnection,
    purpose: Purpose,
    settings: &SessionSettings,
) -> Result<(Link, Peer), StoreError> {
    // Simple query protocol: one round trip for each statement instead of two, so that a lost session is replaced sooner.
    let mut link = configure(connection, purpose, settings).await?;
    let row = writable(&mut link).await?;
    link.keep("synchronous_commit", &check_durability(&row)?);
    if !row.try_get::<bool, _>("migrated").map_err(of_sqlx)? {
        return Err(schema(format!(
            "the database has no ledger of this version yet in the schema `{}`: run `{} migrate`",
            settings.schema,
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
    if !settings.pooled {
        link.active_backend().set(Some(backend));
    }
    let server_started = row.try_get("server_started").map_err(of_sqlx)?;
    Ok((link, Peer { backend, server_started }))
}

/// The server's description of itself (`ledger.trust`).
///
/// # Errors
/// The server is too old, or does not accept writes, or its database is unsuitable.
async fn writable<'c>(connection: impl Executor<'c, Database = Postgres>) -> Result<PgRow, StoreError> {
    let row = sqlx::raw_sql(sql::TRUST).fetch_one(connection).await.map_err(of_sqlx)?;
    let version: i32 = row.try_get("version").map_err(of_sqlx)?;
    if version < VERSION_MIN {
        return Err(schema(format!(
            "the server is Postgres {}; the ledger needs 14 or newer",
            version / 10_000
        )));
    }
    check_database(&row)?;
    if row.try_get("read_only").map_err(of_sqlx)? {
        return Err(unavailable("the server is read-only: a standby, or set so".into()));
    }
    Ok(row)
}

/// Checks that the database has the encoding UTF8, and is not a template of other databases.
fn check_database(row: &PgRow) -> Result<(), StoreError> {
    let encoding: String = row.try_get("encoding").map_err(of_sqlx)?;
    let database: String = row.try_get("database").map_err(of_sqlx)?;
    if encoding != "UTF8" {
        return Err(schema(format!(
            "the database {database} has the encoding {encoding}, which does not hold every text of a caller; the encoding \
             of a database cannot be changed: {CREATE_DATABASE} and name that one in database_url"
        )));
    }
    if row.try_get("template").map_err(of_sqlx)? {
        return Err(schema(format!(
            "the database {database} is a template: later databases of this server would be copies of the ledger; \
             {CREATE_DATABASE} and name that one in database_url"
        )));
    }
    Ok(())
}

/// Checks that commits survive a crash and a failover, and returns the value of `synchronous_commit`.
fn check_durability(row: &PgRow) -> Result<String, StoreError> {
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
