//! The schema: migrations are applied one after the other, each of them while servers serve.
//!
//! Two rules keep the servers going. A migration waits for its locks only for a moment, since whoever comes after
//! it waits behind it; then it lets them pass, and tries again. And nobody waits for another `migrate` within a
//! statement: an index that is built concurrently would wait for that statement, and the statement for the index.

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

/// How a migration makes way for those who serve.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long a statement of a migration waits for a lock, while everybody else waits behind it.
    pub lock_wait: Duration,
    /// How long such a statement may take, that wait included: so long may it be in the way. Less than the servers'
    /// own `lock_wait`, which would take it for somebody who holds a row.
    pub statement: Duration,
    /// How long the others have the store for themselves before the next try.
    pub rest: Duration,
    /// How long all tries of one migration may take together, and how long another `migrate` is waited for.
    pub within: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            lock_wait: Duration::from_millis(100),
            statement: Duration::from_millis(200),
            rest: Duration::from_secs(1),
            within: Duration::from_mins(10),
        }
    }
}

/// One `migrate` at a time in a database. The numbers are the ledger's own: "ledg".
const LOCK: &str = "\
-- ledger.migrate_lock
SELECT pg_try_advisory_lock(1818584167, 1) AS mine";

const UNLOCK: &str = "\
-- ledger.migrate_unlock
SELECT pg_advisory_unlock(1818584167, 1) AS mine";

const MAKE_SCHEMA: &str = "\
-- ledger.make_schema
CREATE SCHEMA ledger";

/// The name of the database, quoted where it must be.
const DATABASE: &str = "\
-- ledger.database
SELECT quote_ident(current_database()) AS name";

/// The code of a missing right.
const NO_RIGHT: &str = "42501";

/// What an index is left as that could not be built to its end.
const HALF_BUILT: &str = "\
-- ledger.half_built
SELECT c.relname AS name
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = 'ledger'::regnamespace AND NOT i.indisvalid";

/// Brings the schema up to the last of these migrations; says how many were applied.
pub(super) async fn migrate(
    connection: &mut PgConnection,
    name: &SchemaName,
    migrations: &Migrator,
    pace: Pace,
) -> Result<usize, StoreError> {
    let migrations = &name.migrations(migrations);
    alone(connection, pace).await?;
    match whose(connection, name).await? {
        // To create it where it is there needs a right that its owner may lack.
        Whose::Absent => make_schema(connection, name).await?,
        Whose::Empty | Whose::Ledger => {}
        Whose::Other(objects) => return Err(others(name, &objects)),
    }
    let before = applied(connection, migrations).await?;
    if !before.is_empty() {
        // What a newer binary has taken from older ones this one must neither migrate nor call sound.
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
    // Where there is no ledger yet nobody is in the way, however slow the machine is.
    let pace = if before.is_empty() { Pace { statement: Duration::ZERO, ..pace } } else { pace };
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

/// The schema is not a ledger's.
fn others(name: &SchemaName, objects: &str) -> StoreError {
    schema(format!(
        "the schema `{name}` is not a ledger's: it has {objects}; nothing was changed: give the ledger another schema, by the \
         setting `schema` of each server and each `migrate` (--schema NAME)"
    ))
}

/// Many managed services have an owner of the database who is not the role of an application.
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

/// Waits until no other `migrate` is at work.
async fn alone(connection: &mut PgConnection, pace: Pace) -> Result<(), StoreError> {
    let give_up = Instant::now() + pace.within;
    loop {
        let locked = sqlx::raw_sql(LOCK).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
        if locked.try_get::<bool, _>("mine").map_err(of_sqlx)? {
            return Ok(());
        }
        if Instant::now() >= give_up {
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

/// The versions that were applied.
async fn applied(connection: &mut PgConnection, migrations: &Migrator) -> Result<Vec<i64>, StoreError> {
    let table = &migrations.table_name;
    connection.ensure_migrations_table(table).await.map_err(|error| of_migrate(&error))?;
    let listed = connection.list_applied_migrations(table).await.map_err(|error| of_migrate(&error))?;
    Ok(listed.iter().map(|migration| migration.version).collect())
}

/// One migration, however often it must make way.
async fn apply(
    connection: &mut PgConnection,
    name: &SchemaName,
    migrations: &Migrator,
    migration: &Migration,
    pace: Pace,
) -> Result<(), StoreError> {
    let give_up = Instant::now() + pace.within;
    loop {
        if migration.no_tx {
            drop_half_built(connection, name, migration, pace).await?;
        } else {
            bound(connection, pace.lock_wait, pace.statement).await?;
        }
        let done = migrations.run_direct(Some(migration.version), connection, false).await;
        bound(connection, Duration::ZERO, Duration::ZERO).await?;
        let Err(error) = done else { return Ok(()) };
        if !in_the_way(&error) || Instant::now() >= give_up {
            return Err(of_migrate(&error));
        }
        let error = said_of_migration(&error);
        warn_once_a_second!(version = migration.version, error, "a migration makes way, and tries again");
        sleep(pace.rest).await;
    }
}

/// An index that is built concurrently waits for all transactions that are older, and stands in nobody's way
/// meanwhile: it waits for long. Where it failed before, a half of it is there, which serves nobody.
async fn drop_half_built(
    connection: &mut PgConnection,
    name: &SchemaName,
    migration: &Migration,
    pace: Pace,
) -> Result<(), StoreError> {
    bound(connection, pace.within, Duration::ZERO).await?;
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

/// How long statements may wait for a lock, and run. Zero: for ever.
async fn bound(connection: &mut PgConnection, lock: Duration, statement: Duration) -> Result<(), StoreError> {
    let (lock, statement) = (lock.as_millis(), statement.as_millis());
    plain(connection, format!("SET lock_timeout = {lock}; SET statement_timeout = {statement}")).await
}

async fn plain(connection: &mut PgConnection, statement: String) -> Result<(), StoreError> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(statement))).await.map_err(of_sqlx)?;
    Ok(())
}

/// Somebody held a lock, or the migration held one for too long; or both waited for each other.
fn in_the_way(error: &MigrateError) -> bool {
    is_one_of(error, &["55P03", "57014", "40P01"])
}

/// A prepared statement is unknown to the connection, or is there already from somebody else.
fn through_a_pooler(error: &MigrateError) -> bool {
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
    let advice = if in_the_way(error) {
        "; what stands in its way is shown by pg_stat_activity: wait for it or end it, and run it again"
    } else if through_a_pooler(error) {
        "; this is a pooler of transactions: name the database itself, past its pooler"
    } else {
        ""
    };
    schema(format!("{}{advice}", said_of_migration(error)))
}
