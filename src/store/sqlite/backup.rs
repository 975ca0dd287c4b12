//! Backup of a file that may be served meanwhile, and restore. The backup holds everything that was durable when it began,
//! including the count of heartbeats, and a mark: it is served only after a restore, by which a person accepts that later
//! commits are lost.

use std::fs::File;
use std::io::Error;
use std::path::{Path, PathBuf};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _};

use super::at_path::{LOCK, SHM, WAL, refused, sibling};
use super::connect::{BUSY_TIMEOUT, MARK, canonical, is_backup, no_backup, standing, take_lock};
use super::counter::{self, COUNTER, Counter, sync_folder};
use super::losses::{counted, set};
use super::statements as sql;
use super::unfinished_file::{UnfinishedFile, copy_owner, remove_sidecars};
use crate::store::migrations::{SQLITE as MIGRATIONS, newest};
use crate::store::schema::still;

/// Suffixes of an unfinished backup, and of a backup that is being restored.
const UNFINISHED_COPY: &str = ".unfinished";
const UNFINISHED_RESTORE: &str = ".restore";

/// The result of a backup or a restore.
#[derive(Debug)]
pub struct Copied {
    /// The last heartbeat that the copy holds.
    pub heartbeat: i64,
    /// The size of the copy.
    pub bytes: u64,
}

/// Backs up the file at `path` to `to`.
///
/// # Errors
/// `path` is not a ledger, or `to` exists and is not to be replaced, or those of the file system.
pub(super) async fn backup(path: &Path, to: &Path, replaces: bool) -> Result<Copied, String> {
    let path = canonical(path)?;
    refused(&path)?;
    if !replaces && to.symlink_metadata().is_ok() {
        return Err(format!("{} is there already: choose another name, or add --replace", to.display()));
    }
    let is_ledgers = |to: PathBuf| ["", WAL, SHM, LOCK, COUNTER].iter().any(|end| to == sibling(&path, end));
    if to.canonicalize().is_ok_and(is_ledgers) {
        return Err(format!("{} is the ledger's own: choose another name", to.display()));
    }
    let copy = UnfinishedFile::new(to, UNFINISHED_COPY)?;
    let failed = |error: String| format!("the copy of {}: {error}", path.display());
    let mut from = opened(&path, true).await.map_err(failed)?;
    no_backup(&mut from).await.map_err(|error| failed(error.to_string()))?;
    let is_ledger = standing(&mut from).await.map_err(|error| failed(error.to_string()))?.is_some();
    if !is_ledger {
        return Err(format!("{} is not a ledger: no server has made its tables", path.display()));
    }
    // One read transaction: it sees what was durable when it began, and does not block servers.
    let name = copy.path().to_str().ok_or("the name of the copy is not valid UTF-8")?.to_owned();
    let copied = sqlx::query(sql::COPY).bind(name).execute(&mut from).await;
    copied.map_err(|error| failed(error.to_string()))?;
    drop(from.close().await);
    let mut connection = opened(copy.path(), false).await.map_err(failed)?;
    mark(&mut connection, MARK).await.map_err(|error| failed(error.to_string()))?;
    let heartbeat = checked(&mut connection).await.map_err(failed)?;
    drop(connection.close().await);
    let bytes = synced(copy.path()).map_err(|error| failed(error.to_string()))?;
    copy.put(to, replaces).map_err(|error| format!("{}: {error}", to.display()))?;
    sync_folder(to).map_err(|error| format!("{}: {error}", to.display()))?;
    Ok(Copied { heartbeat, bytes })
}

/// Replaces the file at `path` with a backup. The caller accepts that later commits are lost.
///
/// # Errors
/// `from` is not a backup, or a server has the file open, or those of the file system. Then the file is unchanged, or lacks its
/// WAL, which the next start detects as a loss.
pub(super) async fn restore(path: &Path, from: &Path) -> Result<Copied, String> {
    let path = canonical_or_new(path)?;
    refused(&path)?;
    let failed = |error: Error| format!("{}: {error}", path.display());
    let old = std::fs::metadata(&path).or_else(|_| std::fs::metadata(folder(&path))).map_err(failed)?;
    let _lock = take_lock(&path)?;
    copy_owner(&sibling(&path, LOCK), &old)?;
    let mut copy = UnfinishedFile::new(&path, UNFINISHED_RESTORE)?;
    let read = File::open(from).and_then(|mut from| std::io::copy(&mut from, copy.file()));
    read.map_err(|error| format!("{}: {error}", from.display()))?;
    let wrong = |error: String| format!("{}: {error}", from.display());
    let mut connection = opened(copy.path(), false).await.map_err(wrong)?;
    if !is_backup(&mut connection).await.map_err(|error| wrong(error.to_string()))? {
        return Err(wrong("is not a backup: make one by `idempotency-ledger backup`".into()));
    }
    mark(&mut connection, 0).await.map_err(|error| wrong(error.to_string()))?;
    let stands = standing(&mut connection).await.map_err(|error| wrong(error.to_string()))?;
    let stands = stands.ok_or_else(|| wrong("is not a ledger".into()))?;
    still(stands.serves_from, stands.level, newest(&MIGRATIONS)).map_err(|fault| wrong(fault.to_string()))?;
    let heartbeat = checked(&mut connection).await.map_err(wrong)?;
    // Higher than the count in the counter file, so that the next start does not report lost commits: by restoring a backup, the
    // operator has accepted their loss.
    let count = heartbeat.max(counter::read(&path).map_or(0, Counter::count)).saturating_add(1);
    set(&mut connection, count).await.map_err(|error| wrong(error.to_string()))?;
    drop(connection.close().await);
    copy_owner(copy.path(), &old)?;
    let bytes = synced(copy.path()).map_err(failed)?;
    // Before the file is replaced: a remaining WAL would be applied to the backup.
    remove_sidecars(&path).map_err(failed)?;
    sync_folder(&path).map_err(failed)?;
    copy.put(&path, true).map_err(failed)?;
    sync_folder(&path).map_err(failed)?;
    counter::write(&path, count).map_err(failed)?;
    copy_owner(&sibling(&path, COUNTER), &old)?;
    Ok(Copied { heartbeat, bytes })
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The canonical path of a file that need not exist.
fn canonical_or_new(path: &Path) -> Result<PathBuf, String> {
    if path.symlink_metadata().is_ok() {
        return canonical(path);
    }
    let name = path.file_name().ok_or_else(|| format!("{} names no file", path.display()))?;
    Ok(canonical(folder(path))?.join(name))
}

async fn opened(path: &Path, read_only: bool) -> Result<SqliteConnection, String> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .read_only(read_only)
        .create_if_missing(false)
        .busy_timeout(BUSY_TIMEOUT)
        .disable_statement_logging();
    options.connect().await.map_err(|error| error.to_string())
}

async fn mark(connection: &mut SqliteConnection, id: i32) -> Result<(), sqlx::Error> {
    let statement = sqlx::query(AssertSqlSafe(format!("{}{id}", sql::MARK))).persistent(false);
    statement.execute(connection).await.map(drop)
}

/// Checks the pages of a copy, and returns its last heartbeat.
async fn checked(connection: &mut SqliteConnection) -> Result<i64, String> {
    let row = sqlx::query(sql::SOUND).fetch_one(&mut *connection).await.map_err(|error| error.to_string())?;
    match row.get::<String, _>(0).as_str() {
        "ok" => counted(connection).await.map_err(|error| error.to_string()),
        wrong => Err(format!("its pages are damaged: {wrong}")),
    }
}

/// Makes a file durable; returns its size.
fn synced(path: &Path) -> Result<u64, Error> {
    let file = File::open(path)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}
