//! The migrations of both databases, in the order in which they are applied.

use std::borrow::Cow;
use std::sync::LazyLock;

use sqlx::SqlSafeStr as _;
use sqlx::migrate::{Migration, MigrationType, Migrator};

macro_rules! migrations {
    ($database:literal: $($version:literal $name:literal),+) => {
        Migrator::with_migrations(vec![$(Migration::new(
            $version,
            Cow::Borrowed($name),
            MigrationType::Simple,
            include_str!(concat!("../../migrations/", $database, "/000", $version, "_", $name, ".sql")).into_sql_str(),
            false,
        )),+])
    };
}

pub(super) static POSTGRES: LazyLock<Migrator> = LazyLock::new(|| migrations!("postgres": 1 "ledger"));

pub(super) static SQLITE: LazyLock<Migrator> = LazyLock::new(|| migrations!("sqlite": 1 "ledger"));
