//! The contexts file: where it is, how it is read, and how it is written: atomically, by one process at a
//! time.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::fields::{Contexts, folder};
use super::parse::parse;
use crate::cli::options::ContextsFile;
use crate::cli::problem::Problem;
use crate::cli::text::clean;

/// Only the owner may read the folder: the file names the servers and the token files.
const FOLDER_MODE: u32 = 0o700;
/// Other processes hold the lock only for an instant.
const LOCK_MAX: Duration = Duration::from_secs(5);
const LOCK_EVERY: Duration = Duration::from_millis(10);

/// The path of the contexts file.
#[derive(Clone, Debug)]
pub(super) struct ContextsPath {
    pub(super) path: PathBuf,
    /// It was named explicitly, so the file must exist.
    named: bool,
}

impl ContextsPath {
    /// `None` where neither a flag nor the environment leads to a path.
    pub(super) fn of(file: &ContextsFile) -> Option<ContextsPath> {
        if let Some(path) = &file.contexts_file {
            return Some(ContextsPath { path: path.clone(), named: true });
        }
        let path = usual(std::env::var_os("XDG_CONFIG_HOME"), std::env::var_os("HOME"))?;
        Some(ContextsPath { path, named: false })
    }

    /// The path for a change, which must be known.
    pub(super) fn to_change(file: &ContextsFile) -> Result<ContextsPath, Problem> {
        let nowhere = "the folder for contexts is not known: neither XDG_CONFIG_HOME nor HOME is set";
        ContextsPath::of(file).ok_or_else(|| Problem::usage(nowhere).next("name a file with --contexts-file"))
    }

    /// The contexts; empty if the file does not exist.
    pub(super) fn read(&self) -> Result<Contexts, Problem> {
        match fs::read_to_string(&self.path) {
            Ok(text) => self.parsed(&text),
            Err(error) if absent(&error) && !self.named => Ok(Contexts::default()),
            Err(error) => Err(self.problem(&error)),
        }
    }

    fn parsed(&self, text: &str) -> Result<Contexts, Problem> {
        parse(text).map_err(|faults| {
            let faults = faults
                .iter()
                .map(|fault| clean(&format!("{}, line {}: {}", self.path.display(), fault.line, fault.text)));
            let faults = faults.collect::<Vec<_>>().join("\n  ");
            Problem::usage(format!("the file of contexts cannot be used:\n  {faults}"))
        })
    }

    fn problem(&self, error: &io::Error) -> Problem {
        Problem::usage(clean(&format!("the file of contexts: {}: {error}", self.path.display())))
    }

    /// Changes the file. `edit` gets the present contexts, and returns the new text with the contexts that it
    /// must contain; the text is written only if it parses to these.
    pub(super) fn change<T>(
        &self,
        edit: impl FnOnce(&str, &Contexts) -> Result<(String, Contexts, T), Problem>,
    ) -> Result<T, Problem> {
        // A symbolic link stays one: its target is changed.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        let failed = |error: io::Error| self.problem(&error);
        let folder = folder(&path);
        DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder).map_err(failed)?;
        let locked = lock(folder).map_err(failed)?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if absent(&error) => String::new(),
            Err(error) => return Err(failed(error)),
        };
        let (new, expected, summary) = edit(&text, &self.parsed(&text)?)?;
        if parse(&new) != Ok(expected) {
            let text = format!("{}: is not written in sections [contexts.NAME]", self.path.display());
            return Err(Problem::usage(clean(&text)).next("nothing was changed: change it with an editor"));
        }
        if new != text {
            write(&path, folder, &new).map_err(failed)?;
            // The directory is synced too, so that the new name is on the disk.
            locked.sync_all().map_err(failed)?;
        }
        Ok(summary)
    }
}

/// The user's own file, by the rules of the XDG base directories: a relative folder does not count.
fn usual(config: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute(config).or_else(|| Some(absolute(home)?.join(".config")))?;
    Some(folder.join("idempotency-ledger").join("contexts.toml"))
}

fn absent(error: &io::Error) -> bool {
    [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind())
}

/// Locks the folder, so that two processes that change the file concurrently do not undo each other's change.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_MAX => std::thread::sleep(LOCK_EVERY),
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "another process holds the lock of its folder",
                ));
            }
            // Some file systems do not support locks.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Writes the file atomically: a concurrent reader sees the old text or the new one. The temporary file is
/// readable by its owner alone (0600), and so is the file that it becomes.
fn write(path: &Path, folder: &Path, text: &str) -> io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".contexts-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_path_follows_the_environment() {
        let config = "/c/idempotency-ledger/contexts.toml";
        let home = "/h/.config/idempotency-ledger/contexts.toml";
        for (xdg, of_user, place) in [
            (Some("/c"), Some("/h"), Some(config)),
            (None, Some("/h"), Some(home)),
            (Some(""), Some("/h"), Some(home)),
            (Some("relative"), Some("/h"), Some(home)),
            (Some("/c"), None, Some(config)),
            (None, None, None),
            (None, Some(""), None),
        ] {
            let found = usual(xdg.map(OsString::from), of_user.map(OsString::from));
            assert_eq!(found.as_deref(), place.map(Path::new), "{xdg:?} {of_user:?}");
        }
    }

    #[test]
    fn change_that_cannot_be_faithful_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let place = ContextsPath { path: folder.path().join("contexts.toml"), named: true };
        let text = "contexts.a.endpoint = \"x:1\"\n";
        fs::write(&place.path, text).unwrap();
        let lost = |text: &str, stands: &Contexts| Ok((text.replace('a', "b"), stands.clone(), ()));
        let problem = place.change(lost).unwrap_err();
        assert!(problem.text.contains("is not written in sections"), "{problem:?}");
        assert_eq!(fs::read_to_string(&place.path).unwrap(), text);
        place.change(|text, stands| Ok((format!("# x\n{text}"), stands.clone(), ()))).unwrap();
        assert_eq!(fs::read_to_string(&place.path).unwrap(), format!("# x\n{text}"));
        let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&place.path).unwrap());
        let before = inode();
        place.change(|text, stands| Ok((text.to_owned(), stands.clone(), ()))).unwrap();
        assert_eq!(inode(), before, "a change of nothing writes nothing");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "no temporary file stays");
    }
}
