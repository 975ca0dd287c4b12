//! The location of a database: a file, or the memory of this process.

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

pub(super) enum Location {
    File(OnDisk),
    Memory(InMemory),
}

/// A file, with its lock and its checks.
pub(super) struct OnDisk {
    at_path: AtPath,
    losses: Losses,
    wal_growth: WalGrowth,
    /// Held for as long as the store lives.
    _lock: File,
}

/// A database in memory, private to this store.
pub(super) struct InMemory {
    name: String,
    /// Kept open for as long as the store lives: closing the last connection would drop the database.
    kept_open: Mutex<Option<SqliteConnection>>,
}

impl Location {
    /// Locks the file.
    ///
    /// # Errors
    /// Another process has the lock, or the file must not be served.
    pub(super) fn file(path: &Path) -> Result<Location, String> {
        let (at_path, lock) = connect::lock(path)?;
        let losses = Losses::new(at_path.path());
        Ok(Location::File(OnDisk { at_path, losses, wal_growth: WalGrowth::default(), _lock: lock }))
    }

    pub(super) fn memory() -> Location {
        Location::Memory(InMemory { name: format!("/{}", random::id()), kept_open: Mutex::new(None) })
    }

    pub(super) fn is_memory(&self) -> bool {
        matches!(self, Location::Memory(_))
    }

    fn options(&self, creates: bool) -> SqliteConnectOptions {
        match self {
            Location::File(OnDisk { at_path, .. }) => connect::on_disk(at_path.path(), creates),
            Location::Memory(InMemory { name, .. }) => connect::in_memory(name),
        }
    }

    pub(super) async fn migrate(&self) -> Result<usize, StoreError> {
        let path = match self {
            Location::File(OnDisk { at_path, .. }) => Some(at_path.path()),
            Location::Memory(InMemory { kept_open, .. }) => {
                let mut kept_open = kept_open.lock().await;
                if kept_open.is_none() {
                    *kept_open = Some(connect::connect(self.options(true), connect::BUSY_TIMEOUT).await?);
                }
                None
            }
        };
        connect::migrate(self.options(true), path).await
    }

    /// Opens a connection with a `busy_timeout`; returns it with the WAL of a file (`None` in memory).
    pub(super) async fn open(
        &self,
        busy_timeout: Duration,
    ) -> Result<(SqliteConnection, Option<Arc<WalId>>), StoreError> {
        self.check(None)?;
        let mut connection = connect::open(self.options(false), busy_timeout).await?;
        match self {
            Location::Memory(_) => Ok((connection, None)),
            Location::File(OnDisk { at_path, losses, .. }) => {
                let wal = at_path.wal_opened()?;
                losses.judge(&mut connection).await?;
                Ok((connection, Some(wal)))
            }
        }
    }

    /// Checks that the files at the path are still the open ones. A database in memory cannot be replaced.
    pub(super) fn check(&self, opened: Option<&WalId>) -> Result<(), StoreError> {
        match self {
            Location::File(OnDisk { at_path, .. }) => at_path.check(opened),
            Location::Memory(_) => Ok(()),
        }
    }

    /// Warns of a WAL that `SQLite` cannot reset.
    pub(super) fn watch_wal(&self) {
        match self {
            Location::File(OnDisk { at_path, wal_growth, .. }) => wal_growth.note(at_path.wal_bytes()),
            Location::Memory(_) => {}
        }
    }

    /// `None` in memory: such a database is only lost together with the process.
    pub(super) fn losses(&self) -> Option<&Losses> {
        match self {
            Location::File(OnDisk { losses, .. }) => Some(losses),
            Location::Memory(_) => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Location::File(OnDisk { at_path, .. }) => write!(to, "SQLite file {}", at_path.path().display()),
            Location::Memory(_) => {
                to.write_str("memory of this process (SQLite), which forgets everything at its end")
            }
        }
    }
}
