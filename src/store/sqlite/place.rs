//! Where a database is: in a file, or in the memory of this process.

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::Mutex;

use super::at_path::{AtPath, WalId};
use super::connect;
use super::losses::Losses;
use super::wal_growth::WalGrowth;
use crate::common::random;
use crate::store::StoreError;

pub(super) enum Place {
    File(OnDisk),
    Memory(InMemory),
}

/// A file, and what watches over it.
pub(super) struct OnDisk {
    at_path: AtPath,
    losses: Losses,
    wal_growth: WalGrowth,
    /// Held for as long as the store lives.
    _lock: File,
}

/// A database that only this store knows.
pub(super) struct InMemory {
    name: String,
    /// Open for as long as the store lives: the last connection that closes ends the database.
    kept_open: Mutex<Option<SqliteConnection>>,
}

impl Place {
    /// Locks the file.
    ///
    /// # Errors
    /// Another process has it, or the file must not be served.
    pub(super) fn file(path: &Path) -> Result<Place, String> {
        let (at_path, lock) = connect::lock(path)?;
        let losses = Losses::new(at_path.path());
        Ok(Place::File(OnDisk { at_path, losses, wal_growth: WalGrowth::default(), _lock: lock }))
    }

    pub(super) fn memory() -> Place {
        Place::Memory(InMemory { name: format!("/{}", random::id()), kept_open: Mutex::new(None) })
    }

    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Place::Memory(_))
    }

    fn options(&self, creates: bool) -> SqliteConnectOptions {
        match self {
            Place::File(OnDisk { at_path, .. }) => connect::on_disk(at_path.path(), creates),
            Place::Memory(InMemory { name, .. }) => connect::in_memory(name),
        }
    }

    pub(super) async fn migrate(&self) -> Result<usize, StoreError> {
        let path = match self {
            Place::File(OnDisk { at_path, .. }) => Some(at_path.path()),
            Place::Memory(InMemory { kept_open, .. }) => {
                let mut kept_open = kept_open.lock().await;
                if kept_open.is_none() {
                    *kept_open = Some(connect::connect(self.options(true), connect::PATIENT).await?);
                }
                None
            }
        };
        connect::migrate(self.options(true), path).await
    }

    /// A connection whose transactions wait for another process for so long, and the WAL of a file.
    pub(super) async fn open(
        &self,
        waits: Duration,
    ) -> Result<(SqliteConnection, Option<Arc<WalId>>), StoreError> {
        self.check(None)?;
        let mut connection = connect::open(self.options(false), waits).await?;
        match self {
            Place::Memory(_) => Ok((connection, None)),
            Place::File(OnDisk { at_path, losses, .. }) => {
                let wal = at_path.wal_opened()?;
                losses.judge(&mut connection).await?;
                Ok((connection, Some(wal)))
            }
        }
    }

    /// Whether what lies at the path of a file is still what is open. Nobody can replace what is in memory.
    pub(super) fn check(&self, opened: Option<&WalId>) -> Result<(), StoreError> {
        match self {
            Place::File(OnDisk { at_path, .. }) => at_path.check(opened),
            Place::Memory(_) => Ok(()),
        }
    }

    /// Warns of a WAL that `SQLite` cannot reset.
    pub(super) fn watch_wal(&self) {
        match self {
            Place::File(OnDisk { at_path, wal_growth, .. }) => wal_growth.note(at_path.wal_bytes()),
            Place::Memory(_) => {}
        }
    }

    /// `None` in memory: what is in memory is lost with the process alone.
    pub(super) fn losses(&self) -> Option<&Losses> {
        match self {
            Place::File(OnDisk { losses, .. }) => Some(losses),
            Place::Memory(_) => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File(OnDisk { at_path, .. }) => write!(to, "SQLite file {}", at_path.path().display()),
            Place::Memory(_) => {
                to.write_str("memory of this process (SQLite), which forgets everything at its end")
            }
        }
    }
}
