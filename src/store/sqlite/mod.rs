//! The ledger in one `SQLite` file: the embedded default.
//!
//! One process owns the file, by a lock beside it; within it one connection serves all sessions,
//! one transaction at a time; what may read much (lists, counts) has a second one, so that claims do
//! not wait for it.

mod at_once;
mod audit;
mod before_baseline;
mod connect;
mod entries;
mod entry_statements;
mod errors;
mod file;
mod for_rows;
mod holds;
mod listing;
mod names;
mod operators;
mod policies;
mod purge;
mod replays;
pub(super) mod statement_list;
mod statements;
mod upkeep;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::{
    Clock, Entries, HoldBook, Operators, PolicyBook, Purpose, ReplayBook, Session, Store, StoreError, Upkeep,
};
use crate::domain::StoreTime;
use file::{SqliteFile, Work};

/// The ledger in one `SQLite` file.
pub struct SqliteStore {
    file: Arc<SqliteFile>,
}

impl SqliteStore {
    /// Takes possession of the file at `path`; opens it with the first session.
    ///
    /// # Errors
    /// The folder is missing or read-only, or another process owns the file.
    pub fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteStore, String> {
        Ok(SqliteStore { file: Arc::new(SqliteFile::new(path, clock)?) })
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        format!("SQLite file {}", self.file.path().display())
    }

    fn database(&self) -> &'static str {
        "sqlite"
    }

    fn sessions(&self) -> usize {
        1
    }

    async fn open(&self, _: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let nothing: Work<()> = Box::new(|_, _, _| Box::pin(async { Ok(()) }));
        self.file.look(nothing).await?;
        Ok(Box::new(SqliteSession { file: Arc::clone(&self.file) }))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        connect::migrate(self.file.path()).await
    }

    async fn accept_clock(&self) -> Result<StoreTime, StoreError> {
        let work: Work<()> =
            Box::new(move |connection, _, reading| Box::pin(upkeep::accept_clock(connection, reading)));
        Ok(self.file.write(work).await?.0.now)
    }
}

struct SqliteSession {
    file: Arc<SqliteFile>,
}

impl Session for SqliteSession {
    fn entries(&mut self) -> &mut dyn Entries {
        self
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        self
    }

    fn operators(&mut self) -> &mut dyn Operators {
        self
    }

    fn policy_book(&mut self) -> &mut dyn PolicyBook {
        self
    }

    fn replay_book(&mut self) -> &mut dyn ReplayBook {
        self
    }

    fn hold_book(&mut self) -> &mut dyn HoldBook {
        self
    }
}
