//! The migrations of both databases, in the order of their application, and the tables that record them.

use std::borrow::Cow;
use std::sync::LazyLock;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

macro_rules! migrations {
    ($database:literal: $($version:literal $name:literal $file:literal),+) => {
        vec![$(migration(
            $version,
            $name,
            include_str!(concat!("../../migrations/", $database, "/", $file, ".sql")),
        )),+]
    };
}

/// In the ledger's own schema: `public` may be writable by every role, or by no role.
pub(super) const POSTGRES_TABLE: &str = "ledger.migrations";
const SQLITE_TABLE: &str = "migrations";

/// The first line of a migration that is one statement without a transaction, such as CREATE INDEX CONCURRENTLY.
const ALONE: &str = "-- no-transaction";

/// The migrations of Postgres, in order.
pub static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| {
    postgres(migrations!(
        "postgres":
        1 "ledger" "0001_ledger",
        2 "replay_runs" "0002_replay_runs",
        3 "request_digest" "0003_request_digest",
        4 "holds" "0004_holds",
        5 "doubled" "0005_doubled",
        6 "doubled_index" "0006_doubled_index",
        7 "key_format" "0007_key_format",
        8 "inbox" "0008_inbox",
        9 "due_index" "0009_due_index",
        10 "erase_index" "0010_erase_index",
        11 "messages" "0011_messages"
    ))
});

/// The migrations of `SQLite`, in order.
pub static SQLITE: LazyLock<Migrator> = LazyLock::new(|| {
    let all = migrations!(
        "sqlite":
        1 "ledger" "0001_ledger",
        2 "replay_runs" "0002_replay_runs",
        3 "request_digest" "0003_request_digest",
        4 "holds" "0004_holds",
        5 "doubled" "0005_doubled",
        6 "doubled_index" "0006_doubled_index",
        7 "key_format" "0007_key_format",
        8 "inbox" "0008_inbox",
        9 "due_index" "0009_due_index",
        10 "erase_index" "0010_erase_index",
        11 "messages" "0011_messages"
    );
    in_table(all, SQLITE_TABLE.into())
});

/// Migrations of Postgres, recorded in the ledger's schema.
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

/// Migrations that are recorded in this table.
pub(super) fn in_table(migrations: Vec<Migration>, table: String) -> Migrator {
    let mut all = Migrator::with_migrations(migrations);
    all.dangerous_set_table_name(table);
    // A store that is newer than this binary and still serves it needs no migration.
    all.set_ignore_missing(true);
    // Waiting for sqlx's lock would hold a transaction open, for which an index that is built concurrently waits.
    all.set_locking(false);
    all
}

/// The version of a store to which all of these migrations were applied.
pub(super) fn newest(migrations: &Migrator) -> i64 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or(0)
}
