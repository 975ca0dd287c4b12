//! A reader that bounds the memory of a single row, whatever the file contains, and that tracks the lines and
//! quotes of CSV: the CSV parser treats a quote that is never closed as closed.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The longest row: a result has at most 1 MiB, a third more as base64.
pub(super) const ROW_BYTES_MAX: u64 = 4 << 20;

/// The bytes that the current row may still use; shared with the reader of rows, which knows where they end.
#[derive(Clone)]
pub(super) struct Share {
    left: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    quotes: Arc<Mutex<Quotes>>,
}

impl Share {
    /// Gives the next row the full number of bytes: the one before has ended.
    pub(super) fn renew(&self) {
        self.left.store(ROW_BYTES_MAX, Ordering::Relaxed);
    }

    /// The line where the record of an open quote began; `None` unless the file has ended within quotes.
    pub(super) fn open_quote(&self) -> Option<u64> {
        let quotes = self.quotes.lock().unwrap_or_else(PoisonError::into_inner);
        (self.ended.load(Ordering::Relaxed) && quotes.place == CsvPosition::Quoted).then_some(quotes.began)
    }

    /// The number of lines that were read.
    pub(super) fn lines(&self) -> u64 {
        self.quotes.lock().unwrap_or_else(PoisonError::into_inner).lines()
    }
}

/// The reader.
pub(super) struct RowLimit {
    inner: Box<dyn Read + Send>,
    share: Share,
}

impl RowLimit {
    pub(super) fn new(inner: Box<dyn Read + Send>) -> (RowLimit, Share) {
        let share = Share {
            left: Arc::new(AtomicU64::new(ROW_BYTES_MAX)),
            ended: Arc::default(),
            quotes: Arc::default(),
        };
        (RowLimit { inner, share: share.clone() }, share)
    }
}

impl Read for RowLimit {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.share.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::Error::other(format!(
                "a row is longer than {ROW_BYTES_MAX} bytes; is a quotation mark missing?"
            )));
        }
        let read = self.inner.read(into)?;
        if read == 0 && !into.is_empty() {
            self.share.ended.store(true, Ordering::Relaxed);
        }
        let bytes = into.get(..read).unwrap_or_default();
        self.share.quotes.lock().unwrap_or_else(PoisonError::into_inner).see(bytes);
        let taken = u64::try_from(read).unwrap_or(u64::MAX);
        self.share.left.store(left.saturating_sub(taken), Ordering::Relaxed);
        Ok(read)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CsvPosition {
    #[default]
    RecordStart,
    FieldStart,
    Bare,
    Quoted,
    /// After a quote within a quoted field: its end, or the first of two.
    Closing,
}

/// The position of a reader in a CSV file. A quote begins a quoted field only at the field's start.
#[derive(Debug, Default)]
struct Quotes {
    place: CsvPosition,
    /// The number of bytes and line feeds that were read.
    bytes: u64,
    feeds: u64,
    last: u8,
    /// The line where the record began.
    began: u64,
}

impl Quotes {
    fn see(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            // A byte order mark is not part of the first field.
            let mark = b"\xef\xbb\xbf";
            let marked = usize::try_from(self.bytes).ok().and_then(|at| mark.get(at)) == Some(&byte);
            if !(marked && self.place == CsvPosition::RecordStart) {
                self.step(byte);
            }
            self.bytes += 1;
            self.feeds += u64::from(byte == b'\n');
            self.last = byte;
        }
    }

    fn step(&mut self, byte: u8) {
        if self.place == CsvPosition::RecordStart && !matches!(byte, b'\r' | b'\n') {
            self.began = self.feeds + 1;
            self.place = CsvPosition::FieldStart;
        }
        self.place = match (self.place, byte) {
            (CsvPosition::Quoted, b'"') => CsvPosition::Closing,
            (CsvPosition::FieldStart | CsvPosition::Closing, b'"') | (CsvPosition::Quoted, _) => {
                CsvPosition::Quoted
            }
            (_, b'\r' | b'\n') => CsvPosition::RecordStart,
            (_, b',') => CsvPosition::FieldStart,
            (
                CsvPosition::RecordStart | CsvPosition::FieldStart | CsvPosition::Bare | CsvPosition::Closing,
                _,
            ) => CsvPosition::Bare,
        };
    }

    fn lines(&self) -> u64 {
        self.feeds + u64::from(self.bytes > 0 && self.last != b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_quote_names_the_line_of_its_record() {
        for (text, open) in [
            ("id\n1\n", None),
            ("id\n\"1\"\n", None),
            ("id\n\"1\n", Some(2)),
            ("id\n\"1\"\"\n2\n", Some(2)),
            ("id,b\r\n\r\n1,\"x\r\n2,y\r\n", Some(3)),
            ("id\n1\"\n", None),
            ("id\n\"a\"b\"\n", None),
            ("\u{feff}\"id\n", Some(1)),
            ("id\n\"", Some(2)),
        ] {
            let (mut reader, share) = RowLimit::new(Box::new(io::Cursor::new(text)));
            let mut small = [0; 3];
            while reader.read(&mut small).unwrap() > 0 {
                assert_eq!(share.open_quote(), None, "the file has not ended");
            }
            assert_eq!(share.open_quote(), open, "{text:?}");
            assert_eq!(share.lines(), text.lines().count() as u64, "{text:?}");
        }
    }
}
