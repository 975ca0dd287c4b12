//! Writes that wait for a pipe or terminal which another process has set to non-blocking: the mode belongs to the open file,
//! which both processes share. Without the wait the rest of a line or an answer is lost.

use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

/// Pause before the next try.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// Writes all bytes, and waits for their reader as a blocking pipe does. After an error `bytes` has what was not written.
pub(crate) fn write_all(out: &mut impl Write, bytes: &mut &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match out.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => *bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) => again(error)?,
        }
    }
    while let Err(error) = out.flush() {
        again(error)?;
    }
    Ok(())
}

/// Waits before the next try; `Err` if a retry is useless.
fn again(error: io::Error) -> io::Result<()> {
    let kind = error.kind();
    if kind == ErrorKind::WouldBlock {
        thread::sleep(AGAIN_AFTER);
    }
    if [ErrorKind::Interrupted, ErrorKind::WouldBlock].contains(&kind) { Ok(()) } else { Err(error) }
}
