//! A file that is written under a temporary name next to its destination. The name is always the same, so that the next run
//! replaces what an interrupted run left.

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tempfile::TempPath;

use super::at_path::{MODE, SHM, WAL, sibling};

/// See the module. Removed on drop, unless it was moved to its destination.
#[derive(Debug)]
pub(super) struct UnfinishedFile {
    path: TempPath,
    _sidecars: Sidecars,
    file: File,
}

/// Drop guard: removes the files that `SQLite` may have left next to a file.
#[derive(Debug)]
struct Sidecars(PathBuf);

impl Drop for Sidecars {
    fn drop(&mut self) {
        // A file that cannot be removed now is removed by the next run.
        let _left = remove_sidecars(&self.0);
    }
}

impl UnfinishedFile {
    /// Creates the file, empty and locked by this process.
    ///
    /// # Errors
    /// Another process is writing it, or those of the file system.
    pub(super) fn new(destination: &Path, end: &str) -> Result<UnfinishedFile, String> {
        let path = sibling(destination, end);
        let failed = |error: Error| format!("{}: {error}", path.display());
        let file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(MODE).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(format!(
                    "{} is being written by another process: wait until that one ends",
                    path.display()
                ));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        file.set_len(0).and_then(|()| remove_sidecars(&path)).map_err(failed)?;
        let sidecars = Sidecars(path.clone());
        let path =
            TempPath::try_from_path(path).map_err(|error| format!("{}: {error}", destination.display()))?;
        Ok(UnfinishedFile { path, _sidecars: sidecars, file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Moves the file to its destination. An existing file there is an error unless `replaces` is set.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn put(self, destination: &Path, replaces: bool) -> Result<(), Error> {
        let put =
            if replaces { self.path.persist(destination) } else { self.path.persist_noclobber(destination) };
        put.map_err(|error| error.error)
    }
}

/// Removes the files that `SQLite` may have left next to a file.
///
/// # Errors
/// Those of the file system.
pub(super) fn remove_sidecars(path: &Path) -> Result<(), Error> {
    for end in [WAL, SHM, "-journal"] {
        match std::fs::remove_file(sibling(path, end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Copies the owner of another file, or of its folder, to a file, so that the server's user can open what an administrator
/// restored. Only root can do that: a file that another user created keeps its owner.
///
/// # Errors
/// The owner of a replaced file cannot be kept; or those of the file system.
pub(super) fn copy_owner(path: &Path, old: &Metadata) -> Result<(), String> {
    let failed = |error: Error| format!("{}: {error}", path.display());
    let new = std::fs::metadata(path).map_err(failed)?;
    let owners = [(new.uid(), new.gid()), (old.uid(), old.gid())];
    if owners[0] != owners[1] {
        if geteuid().is_root() {
            chown(path, Some(old.uid()), Some(old.gid())).map_err(failed)?;
        } else if old.is_file() && new.uid() != old.uid() {
            return Err(format!(
                "{} belongs to the user {}, and the file that it takes the place of to {}: do this as that user, or as root",
                path.display(),
                new.uid(),
                old.uid()
            ));
        }
    }
    let mode = if old.is_file() { old.mode() & 0o777 } else { MODE };
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)
}
