//! The file of a spool: opened, locked, and appended to one synced line after the other.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use super::{Event, SpoolFailed, SpoolLine};

/// What a spool does with its file.
pub(crate) trait SpoolFile: Send {
    /// Appends the bytes with one write; returns how many were written.
    fn append(&mut self, line: &[u8]) -> io::Result<usize>;

    /// Returns when what was appended is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

impl SpoolFile for File {
    fn append(&mut self, line: &[u8]) -> io::Result<usize> {
        self.write(line)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Appends lines.
pub(crate) struct Writer {
    file: Option<Box<dyn SpoolFile>>,
    /// The wall clock, in microseconds since 1970.
    clock: fn() -> u64,
    /// Why nothing is written any more.
    failed: Option<SpoolFailed>,
    last: u64,
}

impl Writer {
    pub(crate) fn new(file: Box<dyn SpoolFile>, clock: fn() -> u64) -> Self {
        Self { file: Some(file), clock, failed: None, last: 0 }
    }

    /// Appends a line, and returns when it is on the disk.
    pub(super) fn append(&mut self, event: Event, line: &SpoolLine) -> Result<(), SpoolFailed> {
        let file = match (&self.failed, &mut self.file) {
            (None, Some(file)) => file,
            (Some(failed), _) => return Err(failed.clone()),
            (None, None) => return Err(SpoolFailed("the spool is closed".to_owned())),
        };
        // Later than all lines before: key and instant identify a row, and an end follows its beginning.
        self.last = (self.clock)().max(self.last + 1);
        let line = line.render(event, self.last);
        let written = file.append(line.as_bytes()).and_then(|written| {
            if written == line.len() {
                return file.sync();
            }
            Err(io::Error::other(format!("{written} of {} bytes were written", line.len())))
        });
        written.map_err(|error| {
            let why = format!("the spool could not be written ({error}): open another file");
            self.failed.insert(SpoolFailed(why)).clone()
        })
    }

    pub(super) fn close(&mut self) {
        self.file = None;
        self.failed = Some(SpoolFailed("the spool is closed".to_owned()));
    }
}

/// The wall clock. 0 before 1970.
pub(super) fn micros_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The file, locked, at the beginning of a line; its folder is synced, so that a new file outlives a crash.
pub(super) fn opened(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            io::Error::other("another process, or another Spool of this one, has the file")
        }
        TryLockError::Error(error) => error,
    })?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        // A line that a crash has cut off ends here: the next one must not continue it.
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
    }
    file.sync_all()?;
    // The real folder: that of a link is not the one that names the file.
    let real = path.canonicalize()?;
    if let Some(folder) = real.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(file)
}
