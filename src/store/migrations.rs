//! The migrations of both databases, in the order in which they are applied, and where they are written down.

use std::borrow::Cow;
use std::sync::LazyLock;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

macro_rules! migrations {
    ($database:literal: $($version:literal $name:literal),+) => {
        vec![$(migration(
            $version,
            $name,
            include_str!(concat!("../../migrations/", $database, "/000", $version, "_", $name, ".sql")),
        )),+]
    };
}

/// In the ledger's own schema: `public` belongs to everybody, or to nobody.
pub(super) const POSTGRES_TABLE: &str = "ledger.migrations";
const SQLITE_TABLE: &str = "migrations";

/// What a migration begins with that is one statement and no transaction, such as CREATE INDEX CONCURRENTLY.
const ALONE: &str = "-- no-transaction";

/// Those of Postgres, in order.
pub static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| {
    postgres(migrations!(
        "postgres": 1 "ledger", 2 "replay_runs", 3 "request_digest", 4 "holds", 5 "doubled", 6 "doubled_index",
        7 "key_format"
    ))
});

/// Those of `SQLite`, in order.
pub static SQLITE: LazyLock<Migrator> = LazyLock::new(|| {
    let all = migrations!(
        "sqlite": 1 "ledger", 2 "replay_runs", 3 "request_digest", 4 "holds", 5 "doubled", 6 "doubled_index",
        7 "key_format"
    );
    in_table(all, SQLITE_TABLE.into())
});

/// Migrations of Postgres, as they are written down in the ledger's schema.
#[must_use]
pub fn postgres(migrations: Vec<Migration>) -> Migrator {
    in_table(migrations, POSTGRES_TABLE.into())
}

/// A migration, from its text.
#[must_use]
pub fn migration(version: i64, name: &'static str, text: &'static str) -> Migration {
    let alone = text.starts_with(ALONE);
    Migration::new(version, Cow::Borrowed(name), MigrationType::Simple, text.into_sql_str(), alone)
}

/// Migrations that are written down in this table.
pub(super) fn in_table(migrations: Vec<Migration>, table: String) -> Migrator {
    let mut all = Migrator::with_migrations(migrations);
    all.dangerous_set_table_name(table);
    // A store that is newer than this binary, and serves it, has nothing to be done.
    all.set_ignore_missing(true);
    // Whoever waits for the library's lock is a transaction, for which an index that is built concurrently waits.
    all.set_locking(false);
    all
}

/// The version that a store has after all of them.
pub(super) fn newest(migrations: &Migrator) -> i64 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or(0)
}
