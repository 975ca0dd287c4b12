//! Checks that the path, the open file, its WAL (write-ahead log) and its lock still belong together. `SQLite` opens the WAL by
//! path, and holds the file itself open: a file that is mounted by itself, linked or replaced gets the WAL of another one, and a
//! restart would not find what was acknowledged.
//!
//! The checks use only `stat` and the table of mounts: opening and closing the file would release the locks that `SQLite`
//! has on it in this process (POSIX locks).

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::mounts::{self, Mount};
use crate::store::{Fault, StoreError};

/// Suffixes of the files that `SQLite` and this program keep next to the file.
pub(super) const WAL: &str = "-wal";
pub(super) const SHM: &str = "-shm";
pub(super) const LOCK: &str = ".lock";
/// The mode of all these files: rows are not encrypted, and may hold results of consumers.
pub(super) const MODE: u32 = 0o600;

/// Network file systems, which other machines may write too. Their locks and shared memory do not exclude other machines, and
/// `SQLite` needs both for its WAL.
const OF_A_NETWORK: &[&str] = &[
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.ceph",
    "fuse.ceph-fuse",
    "fuse.gcsfuse",
    "fuse.glusterfs",
    "fuse.juicefs",
    "fuse.rclone",
    "fuse.s3fs",
    "fuse.sshfs",
    "gfs2",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "ocfs2",
    "smb3",
    "smbfs",
];

/// The path with a suffix.
pub(super) fn sibling(path: &Path, end: &str) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(end);
    path.into()
}

/// The identity of a file (device and inode), whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> FileId {
        FileId { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Checks, before a file is opened, that it may be served.
pub(super) fn refused(path: &Path) -> Result<(), String> {
    refused_among(&mounts::now(), path)
}

fn refused_among(mounts: &[Mount], path: &Path) -> Result<(), String> {
    if path.is_dir() {
        return Err(format!("{} is a folder: name a file in it, such as {0}/ledger.db", path.display()));
    }
    for end in ["", WAL, SHM, LOCK] {
        let path = sibling(path, end);
        if mounts.iter().any(|mount| mount.point == path) {
            return Err(format!(
                "{} is mounted by itself, so that the WAL next to it is another one elsewhere, and a restart would \
                 forget what was acknowledged: mount its folder instead",
                path.display()
            ));
        }
    }
    if std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(format!(
            "{} is not a regular file, but a folder, a device or a pipe: name a file",
            path.display()
        ));
    }
    for end in ["", WAL] {
        let path = sibling(path, end);
        let names = std::fs::metadata(&path).map_or(1, |metadata| metadata.nlink());
        if names > 1 {
            return Err(format!(
                "{} has {names} names (hard links), and each name would have its own WAL: keep one of them \
                 (`find FOLDER -samefile {0}` lists them), and back up with `idempotency-ledger backup`",
                path.display()
            ));
        }
    }
    match mounts::of(mounts, path) {
        Some(mount) if OF_A_NETWORK.contains(&&*mount.kind) => Err(format!(
            "{} is on a file system of a network ({} at {}), where neither locks nor the shared memory of SQLite's WAL \
             keep two machines apart: choose a local disk, or Postgres",
            path.display(),
            mount.kind,
            mount.point.display()
        )),
        Some(_) | None => Ok(()),
    }
}

/// The files that `SQLite` opens by path: the WAL and its shared-memory index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WalId {
    wal: FileId,
    shm: FileId,
}

/// The file that is served, as it was when its lock was taken.
#[derive(Debug)]
pub(super) struct AtPath {
    path: PathBuf,
    file: FileId,
    lock: FileId,
    /// The WAL of the open connections: the last one that closes removes it.
    wal: Mutex<Weak<WalId>>,
    /// The file that was replaced or removed. Permanent until the process ends: what happened to the file in between is unknown.
    torn: OnceLock<String>,
}

impl AtPath {
    pub(super) fn new(path: PathBuf, file: FileId, lock: FileId) -> AtPath {
        AtPath { path, file, lock, wal: Mutex::default(), torn: OnceLock::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The WAL of a connection that has just been opened.
    ///
    /// # Errors
    /// The WAL is not that of the other connections, or is missing.
    pub(super) fn wal_opened(&self) -> Result<Arc<WalId>, StoreError> {
        let mut wal = self.wal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = wal.upgrade() {
            self.check(Some(&before))?;
            return Ok(before);
        }
        let id = |end: &str| {
            let path = sibling(&self.path, end);
            let metadata = std::fs::metadata(&path).map_err(|error| unavailable(&path, &error))?;
            Ok(FileId::of(&metadata))
        };
        let found = Arc::new(WalId { wal: id(WAL)?, shm: id(SHM)? });
        *wal = Arc::downgrade(&found);
        Ok(found)
    }

    /// Checks that the files at the path are still the open ones.
    ///
    /// # Errors
    /// They are not, or `stat` fails.
    pub(super) fn check(&self, opened: Option<&WalId>) -> Result<(), StoreError> {
        self.same("", self.file)?;
        self.same(LOCK, self.lock)?;
        let Some(WalId { wal, shm }) = opened else { return Ok(()) };
        self.same(WAL, *wal)?;
        self.same(SHM, *shm)
    }

    /// The size of the WAL.
    pub(super) fn wal_bytes(&self) -> u64 {
        std::fs::metadata(sibling(&self.path, WAL)).map_or(0, |metadata| metadata.len())
    }

    fn same(&self, end: &str, expected: FileId) -> Result<(), StoreError> {
        if let Some(torn) = self.torn.get() {
            return Err(StoreError::NotApplied(Fault::Unavailable(torn.clone())));
        }
        let path = sibling(&self.path, end);
        match std::fs::metadata(&path) {
            Ok(metadata) if FileId::of(&metadata) == expected => Ok(()),
            Ok(_) => Err(self.tear(format!("{} is another file than the one that is open", path.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(self.tear(format!("{} is gone, and its file still open", path.display())))
            }
            Err(error) => Err(unavailable(&path, &error)),
        }
    }

    fn tear(&self, what: String) -> StoreError {
        let torn = self.torn.get_or_init(|| {
            tracing::error!(
                "{what}: a restart would forget what is acknowledged now, so this server answers nothing more; put the \
                 right file in place (docs/sqlite.md), and start the server again"
            );
            what
        });
        StoreError::NotApplied(Fault::Unavailable(torn.clone()))
    }
}

fn unavailable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::NotApplied(Fault::Unavailable(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_refused() {
        let table =
            |kind: &str| format!("22 27 0:21 / / rw - ext4 a rw\n30 22 8:1 / /data rw - {kind} b rw\n");
        for (kind, path, is_refused) in [
            ("nfs4", "/data/ledger.db", true),
            ("cifs", "/data/deep/ledger.db", true),
            ("nfs4", "/database/ledger.db", false),
            ("xfs", "/data/ledger.db", false),
        ] {
            let refused = refused_among(&mounts::mounts(table(kind).as_bytes()), Path::new(path));
            assert_eq!(refused.is_err(), is_refused, "{kind} {path}: {refused:?}");
            assert!(refused.err().is_none_or(|text| text.contains(kind) && text.contains("a local disk")));
        }
    }
}
