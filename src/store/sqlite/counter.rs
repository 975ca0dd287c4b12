//! The counter next to the file: the last heartbeat of which this server knows that it is durable. The file itself holds
//! the same number; commits are lost from the last one backwards, so a file that is behind its counter has lost some.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::at_path::{MODE, sibling};

/// What the counter's file is called, behind the name of the ledger's file.
pub(super) const COUNTER: &str = ".count";
const NEW: &str = ".count.new";
const HEAD: &str = "heartbeats ";

/// What the counter says; `None` if there is none.
///
/// # Errors
/// It cannot be read, or is not a counter.
pub(super) fn read(path: &Path) -> Result<Option<i64>, String> {
    let path = sibling(path, COUNTER);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{}: {error}", path.display())),
    };
    let count = text.strip_prefix(HEAD).and_then(|rest| rest.strip_suffix('\n')?.parse().ok());
    count.map(Some).ok_or_else(|| format!("{} is not a counter of heartbeats", path.display()))
}

/// Puts a count in the place of the one before, durably and as a whole.
///
/// # Errors
/// Those of the file system.
pub(super) fn write(path: &Path, count: i64) -> Result<(), Error> {
    let (new, old) = (sibling(path, NEW), sibling(path, COUNTER));
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(MODE).open(&new)?;
    file.write_all(format!("{HEAD}{count}\n").as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, &old)?;
    sync_folder(&old)
}

/// Makes the names of a file's folder durable.
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
    fn a_counter_comes_back_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger.db");
        assert_eq!(read(&path), Ok(None));
        for count in [0, 7, i64::from(i32::MAX)] {
            write(&path, count).expect("it is written");
            assert_eq!(read(&path), Ok(Some(count)));
        }
        assert!(!sibling(&path, NEW).exists());
        for wrong in ["", "heartbeats", "heartbeats 7", "heartbeats x\n", "7\n"] {
            std::fs::write(sibling(&path, COUNTER), wrong).expect("it is written");
            assert!(read(&path).is_err(), "{wrong:?}");
        }
    }
}
