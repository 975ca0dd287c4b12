//! A file that is being made next to the place that it will have. Its name is always the same one, so that what an
//! interrupted run has left is replaced by the next run.

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tempfile::TempPath;

use super::at_path::{MODE, SHM, WAL, sibling};

/// See the module. It is removed where it does not come to its place.
#[derive(Debug)]
pub(super) struct Part {
    path: TempPath,
    _beside: Beside,
    file: File,
}

/// Removes what `SQLite` may have kept next to a file.
#[derive(Debug)]
struct Beside(PathBuf);

impl Drop for Beside {
    fn drop(&mut self) {
        // What cannot be removed is removed by the next run.
        let _left = removed_beside(&self.0);
    }
}

impl Part {
    /// An empty file, of this process alone.
    ///
    /// # Errors
    /// Another process is making it, or those of the file system.
    pub(super) fn of(place: &Path, end: &str) -> Result<Part, String> {
        let path = sibling(place, end);
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
        file.set_len(0).and_then(|()| removed_beside(&path)).map_err(failed)?;
        let beside = Beside(path.clone());
        let path = TempPath::try_from_path(path).map_err(|error| format!("{}: {error}", place.display()))?;
        Ok(Part { path, _beside: beside, file })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Moves it to its place, in which nothing may be unless it is replaced.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn put(self, place: &Path, replaces: bool) -> Result<(), Error> {
        let put = if replaces { self.path.persist(place) } else { self.path.persist_noclobber(place) };
        put.map_err(|error| error.error)
    }
}

/// Removes what `SQLite` may have kept next to a file.
///
/// # Errors
/// Those of the file system.
pub(super) fn removed_beside(path: &Path) -> Result<(), Error> {
    for end in [WAL, SHM, "-journal"] {
        match std::fs::remove_file(sibling(path, end)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Gives a file to the owner of another one, or of its folder, so that the server's user can open what an administrator has
/// put in place. Only root can: a file that another user has made keeps that user.
///
/// # Errors
/// It is to have the owner of a file, which this process cannot give to it; or those of the file system.
pub(super) fn owned_as(path: &Path, old: &Metadata) -> Result<(), String> {
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
