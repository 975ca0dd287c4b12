//! The ledger in one `SQLite` file: the embedded default.
//!
//! One process owns the file, by a lock file next to it. One connection serves all sessions, one transaction at a time; long
//! reads (lists, counts) use a second one, so that claims do not wait for them.

mod at_path;
mod audit;
mod backup;
mod connect;
mod counter;
mod counting;
mod entries;
mod entry_statements;
mod errors;
mod file;
mod for_rows;
mod holds;
mod inbox;
mod inbox_statements;
mod listing;
mod location;
mod losses;
mod mounts;
mod names;
mod one_trip;
mod open_entries;
mod operators;
mod policies;
mod purge;
mod replays;
pub(super) mod statement_list;
mod statements;
mod unfinished_file;
mod upkeep;
mod wal_growth;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::{
    Clock, Entries, HoldBook, Inbox, Operators, PolicyBook, Purpose, ReplayBook, Session, Store, StoreError,
    Upkeep,
};
use crate::domain::StoreTime;
pub use backup::Copied;
use file::{SqliteFile, Work};
use losses::Losses;

/// The ledger in one `SQLite` file.
pub struct SqliteStore {
    file: Arc<SqliteFile>,
}

impl SqliteStore {
    /// Locks the file at `path`; the first session opens it.
    ///
    /// # Errors
    /// The folder is missing or read-only, another process owns the file, or the file must not be served as it is mounted or
    /// linked.
    pub fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteStore, String> {
        Ok(SqliteStore { file: Arc::new(SqliteFile::new(path, clock)?) })
    }

    /// Backs up the file at `path`, which may be served meanwhile, to `to`: the copy holds all that was acknowledged before
    /// this call.
    ///
    /// # Errors
    /// `path` is not a ledger, or `to` exists and is not to be replaced, or those of the file system.
    pub async fn backup(path: &Path, to: &Path, replaces: bool) -> Result<Copied, String> {
        backup::backup(path, to, replaces).await
    }

    /// Replaces the file at `path` with the backup `from`: everything that was acknowledged after the backup is lost.
    ///
    /// # Errors
    /// `from` is not a backup, or a server has the file, or those of the file system.
    pub async fn restore(path: &Path, from: &Path) -> Result<Copied, String> {
        backup::restore(path, from).await
    }

    /// Accepts, on behalf of a person, that commits are lost if they are: what was lost is granted again.
    pub fn accept_loss(&self) {
        if let Some(losses) = self.file.location().losses() {
            losses.accept();
        }
    }

    /// A ledger in the memory of this process, which is lost at its end: for tests of consumers.
    #[must_use]
    pub fn in_memory(clock: Arc<dyn Clock>) -> SqliteStore {
        SqliteStore { file: Arc::new(SqliteFile::in_memory(clock)) }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> String {
        self.file.location().to_string()
    }

    fn database(&self) -> &'static str {
        "sqlite"
    }

    fn sessions(&self) -> usize {
        1
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        let opened = match purpose {
            Purpose::Reads | Purpose::Waits => {
                let nothing: Work<()> = Box::new(|_, _, _| Box::pin(async { Ok(()) }));
                self.file.look(nothing).await
            }
            // SQLite opens a file that this user cannot write, and fails only at the first write.
            Purpose::Claims
            | Purpose::Heartbeat
            | Purpose::Purge
            | Purpose::OpenClaims
            | Purpose::Inbox
            | Purpose::Changes => {
                let work: Work<()> = Box::new(|connection, _, _| Box::pin(connect::try_to_write(connection)));
                self.file.write(work).await
            }
        };
        opened?;
        Ok(Box::new(SqliteSession { file: Arc::clone(&self.file), reads_only: purpose == Purpose::Waits }))
    }

    fn losses(&self) -> u64 {
        self.file.location().losses().map_or(0, Losses::found)
    }

    fn withholds_grants(&self) -> bool {
        self.file.withheld().load(Ordering::SeqCst)
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        self.file.location().migrate().await
    }

    async fn accept_clock(&self) -> Result<StoreTime, StoreError> {
        let work: Work<()> =
            Box::new(move |connection, _, reading| Box::pin(upkeep::accept_clock(connection, reading)));
        Ok(self.file.write(work).await?.0.now)
    }
}

struct SqliteSession {
    file: Arc<SqliteFile>,
    /// Loads go to the reading connection, so that they do not queue behind writes.
    reads_only: bool,
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

    fn inbox(&mut self) -> &mut dyn Inbox {
        self
    }
}
