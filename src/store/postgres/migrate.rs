//! Applies migrations of the schema one after the other, while servers go on.
//!
//! Two rules keep the servers working. A migration waits for its locks only for a moment, since later statements queue up
//! behind it; then it releases them, and retries after a pause. And a `migrate` never waits for another one within a statement:
//! an index that is built concurrently would wait for that statement, and the statement for the index.

use std::time::Duration;

use sqlx::error::DatabaseError;
use sqlx::migrate::{Migrate as _, MigrateError, Migration, Migrator};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};
use tokio::time::{Instant, sleep};

use super::errors::{of_sqlx, said, said_of_migration};
use super::owner::{Whose, whose};
use super::schema_name::SchemaName;
use super::statements::{KEY_FORMAT, SCHEMA};
use crate::common::log_limit::warn_once_a_second;
use crate::store::StoreError;
use crate::store::migrations::newest;
use crate::store::postgres::connection::connect::{schema, unavailable};
use crate::store::schema::{finds, still};

/// Bounds by which a migration yields to the servers.
#[derive(Clone, Copy, Debug)]
pub struct MigrationPace {
    /// `lock_timeout` of a migration: later statements queue up behind a waiting one.
    pub lock_wait: Duration,
    /// `statement_timeout` of a migration, the wait for locks included: it may block servers for this time. Shorter than the
    /// servers' own `lock_wait`: otherwise their claims would fail as if a row were locked.
    pub statement: Duration,
    /// Pause before the next attempt, in which servers work undisturbed.
    pub rest: Duration,
    /// Bound on all attempts of one migration together, and on the wait for another `migrate`.
    pub within: Duration,
}

impl Default for MigrationPace {
    fn default() -> MigrationPace {
        MigrationPace {
            lock_wait: Duration::from_millis(100),
            statement: Duration::from_millis(200),
            rest: Duration::from_secs(1),
            within: Duration::from_mins(10),
        }
    }
}

/// Advisory lock: one `migrate` at a time in a database. The first number is "ledg" in ASCII.
const LOCK: &str = "\
-- ledger.migrate_lock
SELECT pg_try_advisory_lock(1818584167, 1) AS mine";

const UNLOCK: &str = "\
-- ledger.migrate_unlock
SELECT pg_advisory_unlock(1818584167, 1) AS mine";

const MAKE_SCHEMA: &str = "\
-- ledger.make_schema
CREATE SCHEMA ledger";

/// The name of the database, quoted if necessary.
const DATABASE: &str = "\
-- ledger.database
SELECT quote_ident(current_database()) AS name";

/// SQLSTATE of a missing right.
const NO_RIGHT: &str = "42501";

/// Indexes that a failed `CREATE INDEX CONCURRENTLY` left invalid.
const HALF_BUILT: &str = "\
-- ledger.half_built
SELECT c.relname AS name
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'ledger'::regnamespace AND NOT i.indisvalid";

/// Brings the schema up to the last of these migrations; returns the number that were applied.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    name: &SchemaName,
    migrations: &Migrator,
    pace: MigrationPace,
) -> Result<usize, StoreError> {
    let migrations = &name.migrations(migrations);
    lock_migrations(connection, pace).await?;
    match whose(connection, name).await? {
        // `CREATE SCHEMA IF NOT EXISTS` needs a right that the schema's owner may lack, even if the schema exists.
        Whose::Absent => make_schema(connection, name).await?,
        Whose::Empty | Whose::Ledger => {}
        Whose::Other(objects) => return Err(not_a_ledger(name, &objects)),
    }
    let before = applied(connection, migrations).await?;
    if !before.is_empty() {
        // A store that no longer serves this binary must not be migrated by it, nor reported as up to date.
        let found = AssertSqlSafe(name.render(SCHEMA).into_owned());
        let meta = sqlx::raw_sql(found).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
        let (serves_from, level) =
            (meta.try_get("serves_from").map_err(of_sqlx)?, meta.try_get("level").map_err(of_sqlx)?);
        still(serves_from, level, newest(migrations)).map_err(StoreError::NotApplied)?;
        let found = AssertSqlSafe(name.render(KEY_FORMAT).into_owned());
        let keys = sqlx::raw_sql(found).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
        let (format, has_entries) =
            (keys.try_get("key_format").map_err(of_sqlx)?, keys.try_get("has_entries").map_err(of_sqlx)?);
        finds(format, has_entries).map_err(StoreError::NotApplied)?;
    }
    // Without a ledger there are no servers to yield to, so a slow machine gets all the time it needs.
    let pace = if before.is_empty() { MigrationPace { statement: Duration::ZERO, ..pace } } else { pace };
    let missing: Vec<&Migration> =
        migrations.iter().filter(|migration| !before.contains(&migration.version)).collect();
    for migration in &missing {
        apply(connection, name, migrations, migration, pace).await?;
    }
    let unlocked = sqlx::raw_sql(UNLOCK).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
    if !unlocked.try_get::<bool, _>("mine").map_err(of_sqlx)? {
        tracing::warn!(
            "this connection is pooled, and left its lock behind: the next `migrate` waits for it; name the \
             database itself, not its pooler"
        );
    }
    Ok(missing.len())
}

/// The error for a schema that belongs to another application.
fn not_a_ledger(name: &SchemaName, objects: &str) -> StoreError {
    schema(format!(
        "the schema `{name}` is not a ledger's: it has {objects}; nothing was changed: give the ledger another schema, by the \
         setting `schema` of each server and each `migrate` (--schema NAME)"
    ))
}

/// Creates the schema. The error names the missing right: in many managed services the owner of the database is not the role of
/// an application.
async fn make_schema(connection: &mut PgConnection, name: &SchemaName) -> Result<(), StoreError> {
    let statement = AssertSqlSafe(name.render(MAKE_SCHEMA).into_owned());
    let Err(error) = connection.execute(sqlx::raw_sql(statement)).await else { return Ok(()) };
    if error.as_database_error().and_then(DatabaseError::code).as_deref() != Some(NO_RIGHT) {
        return Err(of_sqlx(error));
    }
    let named = sqlx::raw_sql(DATABASE).fetch_one(connection).await.map_err(of_sqlx)?;
    let database: String = named.try_get("name").map_err(of_sqlx)?;
    Err(schema(format!(
        "{}: the role that migrates makes the schema `{name}`; as the owner of the database or an administrator run \
         GRANT CREATE ON DATABASE {database} TO that role, and migrate again",
        said(&error)
    )))
}

/// Takes the advisory lock; polls while another `migrate` holds it.
async fn lock_migrations(connection: &mut PgConnection, pace: MigrationPace) -> Result<(), StoreError> {
    let deadline = Instant::now() + pace.within;
    loop {
        let locked = sqlx::raw_sql(LOCK).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
        if locked.try_get::<bool, _>("mine").map_err(of_sqlx)? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(unavailable(format!(
                "another `migrate` has been at work for {:?}; if there is none, one that came through a pooler \
                 left its lock behind: end that connection of the pooler, and name the database itself",
                pace.within
            )));
        }
        warn_once_a_second!("another `migrate` is at work; waiting for it");
        sleep(pace.rest).await;
    }
}

/// The versions of the applied migrations.
async fn applied(connection: &mut PgConnection, migrations: &Migrator) -> Result<Vec<i64>, StoreError> {
    let table = &migrations.table_name;
    connection.ensure_migrations_table(table).await.map_err(|error| of_migrate(&error))?;
    let listed = connection.list_applied_migrations(table).await.map_err(|error| of_migrate(&error))?;
    Ok(listed.iter().map(|migration| migration.version).collect())
}

/// Applies one migration, with as many retries as it takes.
async fn apply(
    connection: &mut PgConnection,
    name: &SchemaName,
    migrations: &Migrator,
    migration: &Migration,
    pace: MigrationPace,
) -> Result<(), StoreError> {
    let deadline = Instant::now() + pace.within;
    loop {
        if migration.no_tx {
            drop_half_built(connection, name, migration, pace).await?;
        } else {
            set_timeouts(connection, pace.lock_wait, pace.statement).await?;
        }
        let done = migrations.run_direct(Some(migration.version), connection, false).await;
        set_timeouts(connection, Duration::ZERO, Duration::ZERO).await?;
        let Err(error) = done else { return Ok(()) };
        if !is_blocked(&error) || Instant::now() >= deadline {
            return Err(of_migrate(&error));
        }
        let error = said_of_migration(&error);
        warn_once_a_second!(version = migration.version, error, "a migration makes way, and tries again");
        sleep(pace.rest).await;
    }
}

/// Prepares a `CREATE INDEX CONCURRENTLY`. It waits for all older transactions, and blocks no statement meanwhile, so it may wait
/// long. Drops the invalid index that a failed attempt left.
async fn drop_half_built(
    connection: &mut PgConnection,
    name: &SchemaName,
    migration: &Migration,
    pace: MigrationPace,
) -> Result<(), StoreError> {
    set_timeouts(connection, pace.within, Duration::ZERO).await?;
    let half_built = AssertSqlSafe(name.render(HALF_BUILT).into_owned());
    let rows = sqlx::raw_sql(half_built).fetch_all(&mut *connection).await.map_err(of_sqlx)?;
    for row in &rows {
        let index: String = row.try_get("name").map_err(of_sqlx)?;
        if migration.sql.as_str().contains(&index) {
            plain(connection, format!("DROP INDEX CONCURRENTLY {name}.{index}")).await?;
        }
    }
    Ok(())
}

/// Sets `lock_timeout` and `statement_timeout`. Zero means no timeout.
async fn set_timeouts(
    connection: &mut PgConnection,
    lock: Duration,
    statement: Duration,
) -> Result<(), StoreError> {
    let (lock, statement) = (lock.as_millis(), statement.as_millis());
    plain(connection, format!("SET lock_timeout = {lock}; SET statement_timeout = {statement}")).await
}

async fn plain(connection: &mut PgConnection, statement: String) -> Result<(), StoreError> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await.map_err(of_sqlx)?;
    Ok(())
}

/// Whether a lock was not available in time, or the statement took too long, or a deadlock was detected.
fn is_blocked(error: &MigrateError) -> bool {
    is_one_of(error, &["55P03", "57014", "40P01"])
}

/// Whether a prepared statement is unknown to the connection, or exists already from another client: a pooler is in between.
fn is_of_pooler(error: &MigrateError) -> bool {
    is_one_of(error, &["26000", "42P05"])
}

fn is_one_of(error: &MigrateError, codes: &[&str]) -> bool {
    let code = database_error(error).and_then(|error| error.as_database_error()?.code());
    code.is_some_and(|code| codes.contains(&&*code))
}

fn database_error(error: &MigrateError) -> Option<&sqlx::Error> {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the library's list of errors is open")]
    match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => Some(error),
        _ => None,
    }
}

fn of_migrate(error: &MigrateError) -> StoreError {
    let advice = if is_blocked(error) {
        "; what stands in its way is shown by pg_stat_activity: wait for it or end it, and run it again"
    } else if is_of_pooler(error) {
        "; this is a pooler of transactions: name the database itself, past its pooler"
    } else {
        ""
    };
    schema(format!("{}{advice}", said_of_migration(error)))
}
