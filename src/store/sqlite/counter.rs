//! The counter file next to the ledger's file: the number of the last heartbeat known to be durable. The ledger's file holds the
//! same number; commits are lost from the last one backwards, so a file that is behind its counter has lost some.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::Path;

use rustix::process::geteuid;

use super::at_path::{MODE, sibling};

/// The suffix of the counter's file after the name of the ledger's file.
pub(super) const COUNTER: &str = ".count";
const NEW: &str = ".count.new";
const HEAD: &str = "heartbeats ";

/// The state of the counter's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counter {
    Missing,
    At(i64),
    /// Another file, or a damaged one.
    Other,
}

impl Counter {
    /// The count; zero without a counter.
    pub(super) fn count(self) -> i64 {
        match self {
            Counter::At(count) => count,
            Counter::Missing | Counter::Other => 0,
        }
    }
}

/// Reads the counter.
///
/// # Errors
/// An I/O error. A file that is missing or damaged is not an error.
pub(super) fn read(path: &Path) -> Result<Counter, String> {
    let path = sibling(path, COUNTER);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Counter::Missing),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let count = std::str::from_utf8(&bytes).ok();
    let count = count.and_then(|text| text.strip_prefix(HEAD)?.strip_suffix('\n')?.parse().ok());
    Ok(count.map_or(Counter::Other, Counter::At))
}

/// Replaces the count, durably and atomically. If root writes it, the file gets the owner of the ledger's file, whose server
/// reads it next.
///
/// # Errors
/// Those of the file system.
pub(super) fn write(path: &Path, count: i64) -> Result<(), Error> {
    let (new, old) = (sibling(path, NEW), sibling(path, COUNTER));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(MODE).open(&new)?;
    file.write_all(format!("{HEAD}{count}\n").as_bytes())?;
    if geteuid().is_root()
        && let Ok(ledger) = std::fs::metadata(path)
    {
        fchown(&file, Some(ledger.uid()), Some(ledger.gid()))?;
    }
    file.sync_all()?;
    std::fs::rename(&new, &old)?;
    sync_folder(&old)
}

/// Makes the directory entries of a file's folder durable (`fsync` of the folder).
///
/// # Errors
/// Those of the file system.
pub(super) fn sync_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_returns_written_counter() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger.db");
        assert_eq!(read(&path), Ok(Counter::Missing));
        for count in [0, 7, i64::from(i32::MAX)] {
            write(&path, count).expect("it is written");
            assert_eq!(read(&path), Ok(Counter::At(count)));
        }
        assert!(!sibling(&path, NEW).exists());
        for wrong in ["", "heartbeats", "heartbeats 7", "heartbeats x\n", "7\n"] {
            std::fs::write(sibling(&path, COUNTER), wrong).expect("it is written");
            assert_eq!(read(&path), Ok(Counter::Other), "{wrong:?}");
        }
        std::fs::remove_file(sibling(&path, COUNTER)).expect("it is removed");
        std::fs::create_dir(sibling(&path, COUNTER)).expect("a folder");
        assert!(read(&path).is_err(), "what cannot be read says nothing");
    }
}
