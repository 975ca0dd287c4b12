//! Detects lost commits. Each heartbeat increments a count in the header of the file (`user_version`), and then in the [counter]
//! next to it: a file that is behind the counter has lost commits. New grants are then withheld until a person accepts the
//! loss. A loss of commits after the last heartbeat is not detected.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Row as _};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use super::counter::{self, Counter};
use super::errors::of_sqlx;
use super::statements as sql;
use crate::common::log_limit::warn_once_a_second;
use crate::store::{Fault, StoreError};

/// How often the log repeats that grants are withheld, in heartbeats.
const REMIND_EVERY: u64 = 60;

/// See the module.
#[derive(Debug)]
pub(super) struct Losses {
    path: PathBuf,
    /// Whether a person accepts a loss that is found at the start.
    accepts: AtomicBool,
    /// Whether a loss was found that no person has accepted.
    withheld: Arc<AtomicBool>,
    found: AtomicU64,
    /// The number of heartbeats since grants are withheld.
    waits: AtomicU64,
    /// The value of the counter. The lock keeps two heartbeats from writing it concurrently.
    written: Mutex<i64>,
}

impl Losses {
    pub(super) fn new(path: &Path) -> Losses {
        Losses {
            path: path.to_owned(),
            accepts: AtomicBool::new(false),
            withheld: Arc::default(),
            found: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            written: Mutex::new(-1),
        }
    }

    /// Accepts the next loss that is found.
    pub(super) fn accept(&self) {
        self.accepts.store(true, Ordering::SeqCst);
    }

    /// Whether grants are withheld until a person accepts a loss.
    pub(super) fn withheld(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.withheld)
    }

    /// The number of losses that were found.
    pub(super) fn found(&self) -> u64 {
        self.found.load(Ordering::Relaxed)
    }

    /// Compares a file that has just been opened with its counter.
    ///
    /// # Errors
    /// The file or its counter cannot be read or written.
    pub(super) async fn judge(&self, connection: &mut SqliteConnection) -> Result<(), StoreError> {
        if self.withheld.load(Ordering::SeqCst) {
            return Ok(());
        }
        // Read before the count of the file: a heartbeat in between makes the file newer, never the counter. After this process
        // has written the counter, its value is known without reading it.
        let counter = match *self.written.lock().await {
            ..0 => counter::read(&self.path).map_err(unavailable)?,
            written => Counter::At(written),
        };
        let count = counted(connection).await?;
        let lost = match counter {
            Counter::At(counter) if count >= counter => None,
            // The file was never served.
            Counter::Missing if count == 0 => None,
            Counter::At(counter) => {
                Some(format!("it ends with heartbeat {count}, and heartbeat {counter} was durable"))
            }
            Counter::Missing => Some(format!(
                "it has {count} heartbeats, and the counter next to it is missing, as in a copy"
            )),
            Counter::Other => Some(format!("what is next to it at {} is not its counter", counter::COUNTER)),
        };
        let accepts = self.accepts.load(Ordering::SeqCst);
        let Some(lost) = lost else {
            if accepts {
                self.accepts.store(false, Ordering::SeqCst);
                tracing::warn!(
                    "--accept-loss: no loss was found; leave the flag out, so that it does not accept a later one"
                );
            }
            return Ok(());
        };
        if accepts {
            let next = count.max(counter.count()).saturating_add(1);
            set(connection, next).await?;
            self.write_down(next).await.map_err(unavailable)?;
            // Only after success: a failed attempt is repeated.
            self.accepts.store(false, Ordering::SeqCst);
            tracing::warn!(lost, "a loss of commits was accepted: what was lost is granted again");
            return Ok(());
        }
        self.found.fetch_add(1, Ordering::Relaxed);
        self.withheld.store(true, Ordering::SeqCst);
        self.remind(&lost);
        Ok(())
    }

    fn remind(&self, lost: &str) {
        tracing::error!(
            file = %self.path.display(),
            lost,
            "the ledger has lost commits that it had acknowledged: nothing new is granted, since messages that were \
             completed could be granted again; put the right file in place, or accept the loss: start the server once \
             with --accept-loss (docs/sqlite.md)"
        );
    }

    /// Counts a heartbeat, within its transaction. `None` while grants are withheld: so the next start finds the loss again.
    pub(super) async fn beat(&self, connection: &mut SqliteConnection) -> Result<Option<i64>, StoreError> {
        if self.withheld.load(Ordering::SeqCst) {
            if (self.waits.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(REMIND_EVERY) {
                self.remind("as was reported");
            }
            return Ok(None);
        }
        let next = counted(connection).await?.saturating_add(1);
        set(connection, next).await?;
        Ok(Some(next))
    }

    /// Writes the counter after a heartbeat is durable.
    pub(super) async fn beaten(&self, count: i64) {
        if let Err(error) = self.write_down(count).await {
            warn_once_a_second!(
                error,
                "the counter of heartbeats cannot be written: a loss of later commits would not be seen"
            );
        }
    }

    async fn write_down(&self, count: i64) -> Result<(), String> {
        let mut written = self.written.lock().await;
        if count <= *written {
            return Ok(());
        }
        let path = self.path.clone();
        let done = spawn_blocking(move || counter::write(&path, count)).await;
        done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        *written = count;
        Ok(())
    }
}

/// Creates the counter of a file that was just migrated: from the first heartbeat on, a copy without its counter is
/// recognised as a copy.
///
/// # Errors
/// Those of the store, and of the file system.
pub(super) async fn begin(connection: &mut SqliteConnection, path: &Path) -> Result<(), StoreError> {
    // A counter above zero next to a file without heartbeats means a loss.
    let is_new = matches!(counter::read(path).map_err(unavailable)?, Counter::Missing | Counter::At(0));
    if counted(connection).await? > 0 || !is_new {
        return Ok(());
    }
    // The counter first: it must not be missing next to a file with heartbeats.
    counter::write(path, 0).map_err(|error| unavailable(error.to_string()))?;
    set(connection, 1).await
}

fn unavailable(error: String) -> StoreError {
    StoreError::NotApplied(Fault::Unavailable(error))
}

/// The number of heartbeats that the file holds.
pub(super) async fn counted(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    let row = sqlx::query(sql::COUNTED).fetch_one(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.get(0))
}

/// Sets the count. `SQLite` accepts the number only within the text of the statement. It has 31 bits: one heartbeat a second for
/// 68 years.
///
/// # Errors
/// Those of the store.
pub(super) async fn set(connection: &mut SqliteConnection, count: i64) -> Result<(), StoreError> {
    let count = count.min(i32::MAX.into());
    let statement = sqlx::query(AssertSqlSafe(format!("{}{count}", sql::COUNT))).persistent(false);
    statement.execute(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::*;

    async fn file(count: i64) -> SqliteConnection {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        set(&mut connection, count).await.unwrap();
        connection
    }

    /// The heartbeats in the file; the counter next to the file; whether a person accepts a loss; whether grants are withheld;
    /// the counter after that.
    #[tokio::test]
    async fn judge_withholds_grants_until_a_loss_is_accepted() {
        for (count, counter, accepts, withheld, after) in [
            (0, None, false, false, Counter::Missing),
            (3, Some("heartbeats 3\n"), false, false, Counter::At(3)),
            (4, Some("heartbeats 3\n"), false, false, Counter::At(3)),
            (2, Some("heartbeats 3\n"), false, true, Counter::At(3)),
            (0, Some("heartbeats 3\n"), false, true, Counter::At(3)),
            (3, None, false, true, Counter::Missing),
            (3, Some("heartbeats 3"), false, true, Counter::Other),
            (3, Some("text of another program"), false, true, Counter::Other),
            (0, Some(""), false, true, Counter::Other),
            (2, Some("heartbeats 3\n"), true, false, Counter::At(4)),
            (3, None, true, false, Counter::At(4)),
            (3, Some("text of another program"), true, false, Counter::At(4)),
            (3, Some("heartbeats 3\n"), true, false, Counter::At(3)),
        ] {
            let case = format!("{count} {counter:?} {accepts}");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("ledger.db");
            if let Some(counter) = counter {
                std::fs::write(folder.path().join("ledger.db.count"), counter).unwrap();
            }
            let (losses, mut connection) = (Losses::new(&path), file(count).await);
            if accepts {
                losses.accept();
            }
            // A second connection of the same server finds the same loss, which counts as one.
            for _ in 0..2 {
                losses.judge(&mut connection).await.unwrap();
                assert_eq!(losses.withheld().load(Ordering::SeqCst), withheld, "{case}");
            }
            assert_eq!(losses.found(), u64::from(withheld), "{case}");
            assert_eq!(counter::read(&path), Ok(after), "{case}");
            // The server grants nothing at any later heartbeat either, also after it has reminded of the loss.
            for _ in 0..=REMIND_EVERY {
                assert_eq!(losses.beat(&mut connection).await.unwrap().is_none(), withheld, "{case}");
            }
            assert!(!losses.accepts.load(Ordering::SeqCst), "{case}: a later loss is not accepted");
        }
    }

    /// Two heartbeats are durable in one order, and their counts may be written in the other.
    #[tokio::test]
    async fn beaten_never_sets_the_counter_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let losses = Losses::new(&path);
        for (count, after) in [(5, 5), (4, 5), (5, 5), (6, 6)] {
            losses.beaten(count).await;
            assert_eq!(counter::read(&path), Ok(Counter::At(after)), "{count}");
        }
        // A count that cannot be written is made up for by the next one.
        let hindrance = folder.path().join("ledger.db.count.new");
        std::fs::create_dir(&hindrance).unwrap();
        losses.beaten(7).await;
        assert_eq!(counter::read(&path), Ok(Counter::At(6)));
        std::fs::remove_dir(hindrance).unwrap();
        losses.beaten(8).await;
        assert_eq!(counter::read(&path), Ok(Counter::At(8)));
    }
}
