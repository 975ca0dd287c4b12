//! The file, its lock, and its schema.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use super::at_path::{AtPath, FileId, LOCK, MODE, refused, sibling};
use super::errors::{for_good, of_sqlx};
use super::for_rows::ROWS_PER_STATEMENT_MAX;
use super::losses;
use super::statements as sql;
use crate::common::program::program;
use crate::store::migrations::{SQLITE as MIGRATIONS, newest};
use crate::store::schema::{Standing, finds, still};
use crate::store::{Fault, StoreError};

/// The `application_id` in the header of a backup: "ILBP" in ASCII.
pub(super) const MARK: i32 = 0x494C_4250;

/// `busy_timeout`: how long a transaction waits for another process that has locked the file. Shorter than the statement timeout
/// of a session for claims, so that a statement that fails by it was certainly not applied.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// `busy_timeout` of transactions after one that timed out: calls that queue up for the single writer are then refused before a
/// session for claims is given up.
pub(super) const BUSY_TIMEOUT_SHORT: Duration = Duration::from_millis(100);

/// `cache_size` in KiB (negative by `SQLite`'s convention): a batch of a thousand rows must not evict its own pages.
const CACHE_SIZE: &str = "-16384";
/// `wal_autocheckpoint`: a checkpoint runs when the WAL has this many pages, of 4 KiB. Four times the default, since a page that
/// many commits have changed is written to the file only once per checkpoint.
const CHECKPOINT_PAGES: &str = "4000";
/// `journal_size_limit`: the WAL is truncated to this size when `SQLite` resets it: 64 MiB, four times its usual size.
pub(super) const WAL_KEPT: &str = "67108864";
/// `SQLite`'s in-memory VFS. A name that begins with a slash is one database for all connections of the process; it is dropped
/// with the last of them.
const IN_MEMORY: &str = "memdb";
/// The number of prepared statements that a connection caches: enough for all of them.
const STATEMENTS_MAX: usize = 200;

/// Locks the file for this process. The operating system releases the lock when the process ends, however it ends.
///
/// # Errors
/// Another process has the lock, or the file must not be served.
pub(super) fn lock(path: &Path) -> Result<(AtPath, File), String> {
    // Only a missing file: opening and closing a file would release the locks of its connections. SQLite creates the files next
    // to it (-wal, -shm) with the same permissions.
    if !path.exists() {
        to_write(path)?;
    }
    let path = canonical(path)?;
    refused(&path)?;
    let lock = take_lock(&path)?;
    let id = |path: &Path| std::fs::metadata(path).map(|metadata| FileId::of(&metadata));
    let failed = |error| format!("{}: {error}", path.display());
    let locked = FileId::of(&lock.metadata().map_err(failed)?);
    let file = id(&path).map_err(failed)?;
    let at_path = AtPath::new(path, file, locked);
    // The lock may have been removed between its opening and this: then another file is locked.
    at_path.check(None).map_err(|error| error.to_string())?;
    Ok((at_path, lock))
}

/// The canonical path: the same file by another name has the same lock and the same WAL.
pub(super) fn canonical(path: &Path) -> Result<PathBuf, String> {
    path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))
}

/// Takes the lock of the file at a canonical path.
pub(super) fn take_lock(path: &Path) -> Result<File, String> {
    let sibling = sibling(path, LOCK);
    let lock = to_write(&sibling)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(format!(
            "{} is in use by another idempotency-ledger process: stop that one, or choose another file",
            path.display()
        )),
        Err(TryLockError::Error(error)) => Err(format!("{} cannot be locked: {error}", sibling.display())),
    }
}

/// Opens a file for writing. A missing one is created for its owner alone; an existing one keeps its permissions.
fn to_write(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().create(true).truncate(false).write(true).mode(MODE).open(path);
    opened.map_err(|error| format!("{}: {error}; the folder must exist and be writable", path.display()))
}

/// The connect options for a file.
pub(super) fn on_disk(path: &Path, creates: bool) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(creates)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
}

/// The connect options for a database in memory. It has neither a WAL that two connections could share, nor a disk to wait for.
pub(super) fn in_memory(name: &str) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(name)
        .vfs(IN_MEMORY)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Off)
}

/// Opens a connection with a `busy_timeout`.
pub(super) async fn connect(
    options: SqliteConnectOptions,
    waits: Duration,
) -> Result<SqliteConnection, StoreError> {
    let options = options
        .busy_timeout(waits)
        // Statement journals (for the rollback of a single statement) would otherwise go to a file, page by page.
        .pragma("temp_store", "MEMORY")
        .pragma("cache_size", CACHE_SIZE)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .pragma("journal_size_limit", WAL_KEPT)
        .row_buffer_size(ROWS_PER_STATEMENT_MAX)
        .statement_cache_capacity(STATEMENTS_MAX)
        .disable_statement_logging();
    options.connect().await.map_err(|error| of_sqlx(&error))
}

/// Opens a connection with a `busy_timeout` to a database whose schema serves this binary.
pub(super) async fn open(
    options: SqliteConnectOptions,
    waits: Duration,
) -> Result<SqliteConnection, StoreError> {
    let mut connection = connect(options, waits).await?;
    no_backup(&mut connection).await?;
    let nothing = Standing { version: 0, serves_from: 0, level: 0 };
    let standing = standing(&mut connection).await?.unwrap_or(nothing);
    standing.check(newest(&MIGRATIONS)).map_err(StoreError::NotApplied)?;
    Ok(connection)
}

/// Brings the schema up to this binary's version. `path` is that of a file, `None` in memory.
pub(super) async fn migrate(options: SqliteConnectOptions, path: Option<&Path>) -> Result<usize, StoreError> {
    migrated(options, path).await.map_err(for_good)
}

async fn migrated(options: SqliteConnectOptions, path: Option<&Path>) -> Result<usize, StoreError> {
    let mut connection = connect(options, BUSY_TIMEOUT).await?;
    no_backup(&mut connection).await?;
    let before = applied(&mut connection).await?;
    if let Some(Standing { serves_from, level, .. }) = standing(&mut connection).await? {
        // A store that no longer serves this binary must not be migrated by it, nor reported as up to date.
        still(serves_from, level, newest(&MIGRATIONS)).map_err(StoreError::NotApplied)?;
        finds_entries(&mut connection).await?;
    }
    let done = MIGRATIONS.run_direct(None, &mut connection, false).await;
    done.map_err(|error| StoreError::NotApplied(Fault::Schema(error.to_string())))?;
    let after = applied(&mut connection).await?;
    if let Some(path) = path {
        losses::begin(&mut connection, path).await?;
    }
    try_to_write(&mut connection).await?;
    let _closed = connection.close().await;
    Ok(usize::try_from(after - before).unwrap_or(0))
}

async fn finds_entries(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let one = |error: sqlx::Error| of_sqlx(&error);
    let row = sqlx::query(sql::SAYS_KEY_FORMAT).fetch_one(&mut *connection).await.map_err(one)?;
    let format = if row.get(0) {
        sqlx::query_scalar(sql::KEY_FORMAT).fetch_one(connection).await.map_err(one)?
    } else {
        1
    };
    finds(format, row.get(1)).map_err(StoreError::NotApplied)
}

/// Checks that the file is writable: `SQLite` also opens a file that this user cannot write.
pub(super) async fn try_to_write(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    let tried = sqlx::query(sql::TRY_TO_WRITE).execute(connection).await;
    tried.map(drop).map_err(|error| of_sqlx(&error))
}

/// Whether the file is a backup that was not restored.
pub(super) async fn is_backup(connection: &mut SqliteConnection) -> Result<bool, StoreError> {
    let row = sqlx::query(sql::MARKED).fetch_one(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(row.get::<i32, _>(0) == MARK)
}

/// Refuses a backup: it lacks what was acknowledged since, and does not have a counter that would detect the loss.
pub(super) async fn no_backup(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    if is_backup(connection).await? {
        let text = format!("the file is a backup: put it in place by `{} restore`", program());
        return Err(StoreError::NotApplied(Fault::Schema(text)));
    }
    Ok(())
}

async fn applied(connection: &mut SqliteConnection) -> Result<i64, StoreError> {
    Ok(standing(connection).await?.map_or(0, |standing| standing.version))
}

/// The versions that the file declares; `None` if it was never migrated.
pub(super) async fn standing(connection: &mut SqliteConnection) -> Result<Option<Standing>, StoreError> {
    let row =
        sqlx::query(sql::MIGRATED).fetch_one(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    if !row.get::<bool, _>(0) {
        return Ok(None);
    }
    let row = sqlx::query(sql::SCHEMA).fetch_one(connection).await.map_err(|error| of_sqlx(&error))?;
    Ok(Some(Standing { serves_from: row.get(0), level: row.get(1), version: row.get(2) }))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn lock_new_files_are_private_existing_keep_modes() {
        let ends = ["", "-wal", "-shm", ".lock"];
        for (existing, modes) in [(None, [0o600; 4]), (Some(0o660), [0o660; 4]), (Some(0o644), [0o644; 4])] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("ledger.db");
            let at = |end: &str| folder.path().join(format!("ledger.db{end}"));
            if let Some(mode) = existing {
                for end in ["", ".lock"] {
                    std::fs::write(at(end), "").expect("it is written");
                    std::fs::set_permissions(at(end), Permissions::from_mode(mode)).expect("its mode");
                }
            }
            let _lock = lock(&path).expect("a lock");
            migrate(on_disk(&path, true), Some(&path)).await.expect("a schema");
            let _connection = open(on_disk(&path, false), BUSY_TIMEOUT).await.expect("a connection");
            let mode =
                |end: &str| std::fs::metadata(at(end)).expect("it is there").permissions().mode() & 0o777;
            assert_eq!(ends.map(mode), modes, "{existing:?}");
        }
    }

    /// Reads the settings on the same connection: no other connection can see them.
    #[tokio::test]
    async fn settings_make_commits_survive_power_loss() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger.db");
        migrate(on_disk(&path, true), Some(&path)).await.expect("a schema");
        let mut connection = open(on_disk(&path, false), BUSY_TIMEOUT).await.expect("a connection");
        let busy = BUSY_TIMEOUT.as_millis().to_string();
        for (pragma, column, value) in [
            ("synchronous", "synchronous", "2"),
            ("journal_mode", "journal_mode", "wal"),
            ("busy_timeout", "timeout", busy.as_str()),
            ("temp_store", "temp_store", "2"),
            ("cache_size", "cache_size", CACHE_SIZE),
            ("journal_size_limit", "journal_size_limit", WAL_KEPT),
        ] {
            let asked = format!("SELECT CAST({column} AS TEXT) FROM pragma_{pragma}");
            let row = sqlx::query(sqlx::AssertSqlSafe(asked));
            let row = row.fetch_one(&mut connection).await.expect("a value");
            assert_eq!(row.get::<String, _>(0), value, "{pragma}");
        }
    }
}
