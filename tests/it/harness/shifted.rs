//! A clock for one Postgres that a test can set forward and back: a small library before the C library, and the file
//! that tells it by how much.

use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) struct ShiftedClock {
    file: std::fs::File,
    path: PathBuf,
    library: PathBuf,
    _folder: tempfile::TempDir,
}

impl ShiftedClock {
    /// Compiles the library: a machine that links Rust has a C compiler.
    pub(crate) fn new() -> ShiftedClock {
        // Another user runs Postgres, and must be able to read both.
        let folder = tempfile::Builder::new().prefix("ledger-clock-").tempdir_in("/tmp").expect("a folder");
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let (library, path) = (folder.path().join("shifted.so"), folder.path().join("ahead"));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/harness/shifted.c");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
        let made = made.expect("cc: install it: apt-get install -y gcc libc6-dev");
        assert!(made.status.success(), "cc: {}", String::from_utf8_lossy(&made.stderr));
        let file = std::fs::File::create(&path).unwrap();
        let clock = ShiftedClock { file, path, library, _folder: folder };
        clock.set(0);
        clock
    }

    /// Microseconds by which the clock is ahead of the machine's from now on.
    pub(crate) fn set(&self, ahead: i64) {
        self.file.write_all_at(&ahead.to_ne_bytes(), 0).unwrap();
    }

    /// What stands before a command of the shell whose clock this is.
    pub(super) fn before_command(&self) -> String {
        format!("LEDGER_CLOCK_FILE='{}' LD_PRELOAD='{}'", self.path.display(), self.library.display())
    }
}
