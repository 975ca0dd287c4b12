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

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A writer that answers each call with the next of these.
    struct Pipe {
        answers: VecDeque<Result<usize, ErrorKind>>,
        written: Vec<u8>,
    }

    impl Pipe {
        fn next(&mut self) -> io::Result<usize> {
            self.answers.pop_front().expect("no further call").map_err(Into::into)
        }
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.next()?;
            self.written.extend(&bytes[..count]);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.next().map(|_| ())
        }
    }

    #[test]
    fn write_waits_for_its_reader_and_loses_nothing() {
        use ErrorKind::{BrokenPipe, Interrupted, WouldBlock, WriteZero};
        for (answers, ended, unwritten) in [
            (&[Ok(5), Ok(0)][..], Ok(()), ""),
            (&[Ok(2), Err(WouldBlock), Ok(2), Err(Interrupted), Ok(1), Ok(0)], Ok(()), ""),
            (&[Ok(5), Err(WouldBlock), Err(Interrupted), Ok(0)], Ok(()), ""),
            (&[Ok(2), Err(BrokenPipe)], Err(BrokenPipe), "llo"),
            (&[Ok(4), Ok(0)], Err(WriteZero), "o"),
            (&[Ok(5), Err(BrokenPipe)], Err(BrokenPipe), ""),
        ] {
            let mut pipe = Pipe { answers: answers.iter().copied().collect(), written: Vec::new() };
            let mut bytes = &b"hello"[..];
            let done = write_all(&mut pipe, &mut bytes).map_err(|error| error.kind());
            assert_eq!((done, bytes), (ended, unwritten.as_bytes()), "{answers:?}");
            assert_eq!([&pipe.written, bytes].concat(), b"hello", "{answers:?}");
            assert!(pipe.answers.is_empty(), "{answers:?}");
        }
    }
}
