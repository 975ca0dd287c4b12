//! A reader that gives no single row more than its share of memory, whatever the file holds.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest row: a result has 1 MiB at the most, a third more as base64.
pub(super) const ROW_BYTES_MAX: u64 = 4 << 20;

/// What one row may still take; shared with whoever knows where rows end.
#[derive(Clone)]
pub(super) struct Share(Arc<AtomicU64>);

impl Share {
    /// A row has ended.
    pub(super) fn renew(&self) {
        self.0.store(ROW_BYTES_MAX, Ordering::Relaxed);
    }
}

/// The reader.
pub(super) struct Limited {
    inner: Box<dyn Read + Send>,
    left: Share,
}

impl Limited {
    pub(super) fn new(inner: Box<dyn Read + Send>) -> (Limited, Share) {
        let left = Share(Arc::new(AtomicU64::new(ROW_BYTES_MAX)));
        (Limited { inner, left: left.clone() }, left)
    }
}

impl Read for Limited {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.left.0.load(Ordering::Relaxed);
        if left == 0 {
            return Err(io::Error::other(format!(
                "a row is longer than {ROW_BYTES_MAX} bytes; is a quotation mark missing?"
            )));
        }
        let read = self.inner.read(into)?;
        let taken = u64::try_from(read).unwrap_or(u64::MAX);
        self.left.0.store(left.saturating_sub(taken), Ordering::Relaxed);
        Ok(read)
    }
}
