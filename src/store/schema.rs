//! Whether a store's schema is the one that this binary works with.

use std::cmp::Ordering;

use crate::program::program;

/// How a store's schema stands to the one that this binary's migrations end with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Schema {
    Fits,
    /// What to tell people.
    Older(String),
    Newer(String),
}

impl Schema {
    /// Compares the version of a store with what this binary's migrations end with.
    pub(super) fn of(migrations: &sqlx::migrate::Migrator, present: i64) -> Schema {
        let known = migrations.iter().map(|migration| migration.version).max().unwrap_or(0);
        match present.cmp(&known) {
            Ordering::Equal => Schema::Fits,
            Ordering::Less => Schema::Older(format!(
                "the store's schema is version {present}, this binary needs {known}: run `{} migrate`",
                program()
            )),
            Ordering::Greater => Schema::Newer(format!(
                "the store's schema is version {present}, newer than this binary's {known}: run the newer binary"
            )),
        }
    }
}
