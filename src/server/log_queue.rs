//! A bounded queue between the threads that log and standard error: the reader of standard error may stall, and threads that
//! serve calls must not wait for it. A single thread writes; lines beyond the bound are dropped, counted, and reported when the
//! log flows again.
//!
//! Not `tracing-appender`: if the queue is full, dropping its guard prints to standard output, which is often the same stalled
//! pipe; its bound is a number of lines of any length; and it drops the rest of a line if a write would block, as on a pipe that
//! another process has set to non-blocking.

use std::cell::Cell;
use std::io::{self, Write};
use std::mem::take;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

use crate::common::patient_write::write_all;

/// The maximum number of queued bytes, including those being written: some 4,000 lines.
const BYTES_MAX: usize = 1_024 * 1_024;
/// How long the end of the process waits for its log to be written.
const ENDS_WITHIN: Duration = Duration::from_secs(1);
/// How often the log reports that lines were dropped.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The queue for standard error.
static QUEUE: OnceLock<LogQueue> = OnceLock::new();

thread_local! {
    /// Whether this is the writer thread: its report may exceed the bound.
    static WRITES: Cell<bool> = const { Cell::new(false) };
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct LogQueue(Arc<QueueState>);

struct QueueState {
    state: Mutex<Backlog>,
    /// Notified when a line was added.
    added: Condvar,
    /// Notified when all lines were written.
    written: Condvar,
}

#[derive(Default)]
struct Backlog {
    lines: Vec<u8>,
    /// The number of bytes that the writer has taken and not written yet.
    writing: usize,
    /// The number of lines that were dropped or could not be written, and the number of those that the log has reported.
    dropped: u64,
    reported: u64,
}

impl LogQueue {
    /// The queue for standard error; the first call starts its thread.
    pub(super) fn of_stderr() -> LogQueue {
        QUEUE.get_or_init(|| LogQueue::before(io::stderr())).clone()
    }

    fn before(out: impl Write + Send + 'static) -> LogQueue {
        let queue = LogQueue(Arc::new(QueueState {
            state: Mutex::default(),
            added: Condvar::new(),
            written: Condvar::new(),
        }));
        let writer = queue.clone();
        // Without the thread, all lines beyond the bound are dropped and counted; the server still serves.
        let _started = thread::Builder::new().name("log".into()).spawn(move || writer.write_all_to(out));
        queue
    }

    /// Adds a line, or drops it.
    pub(super) fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.lines.len() + state.writing + line.len() > BYTES_MAX && !WRITES.get() {
            state.dropped += 1;
            return;
        }
        state.lines.extend_from_slice(line);
        drop(state);
        self.0.added.notify_one();
    }

    /// The number of lines that were dropped.
    pub(super) fn dropped(&self) -> u64 {
        self.state().dropped
    }

    fn state(&self) -> MutexGuard<'_, Backlog> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all lines are written, for a bounded time.
    fn wait_until_written(&self, within: Duration) {
        let waits = |state: &mut Backlog| state.writing > 0 || !state.lines.is_empty();
        drop(self.0.written.wait_timeout_while(self.state(), within, waits));
    }

    fn write_all_to(&self, mut out: impl Write) {
        WRITES.set(true);
        let (mut flows, mut arrived, mut reported_at, mut torn) = (true, 0, None::<Instant>, false);
        loop {
            let lines = self.taken(flows);
            // After half a line, begin a new line.
            torn = torn && write_all(&mut out, &mut &b"\n"[..]).is_err();
            let mut rest = &*lines;
            flows = write_all(&mut out, &mut rest).is_ok();
            torn |= is_torn(&lines, rest);
            let mut state = self.state();
            state.writing = 0;
            if flows {
                arrived = state.reported;
            } else {
                // The disk is full, or the log is closed. The last report may be among the lost lines.
                state.dropped += rest.split_inclusive(|byte| *byte == b'\n').count() as u64;
                state.reported = arrived;
            }
            let due = flows && reported_at.is_none_or(|at| at.elapsed() >= REPORT_EVERY);
            let dropped = if due { state.dropped - state.reported } else { 0 };
            state.reported += dropped;
            if state.lines.is_empty() {
                self.0.written.notify_all();
            }
            // The report is an ordinary line of the log, which this thread adds to the queue.
            drop(state);
            if dropped > 0 {
                reported_at = Some(Instant::now());
                tracing::warn!(
                    dropped,
                    "lines of the log were dropped: standard error did not take them as fast as the server logs"
                );
            }
        }
    }

    /// Waits for lines and takes them. While the log flows and drops are not reported yet, it returns empty from time to time.
    fn taken(&self, flows: bool) -> Vec<u8> {
        let waits = |state: &mut Backlog| state.lines.is_empty();
        let state = self.state();
        let mut state = if flows && state.dropped > state.reported {
            let waited = self.0.added.wait_timeout_while(state, REPORT_EVERY, waits);
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            self.0.added.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
        };
        let lines = take(&mut state.lines);
        state.writing = lines.len();
        lines
    }
}

/// Whether the written part ends within a line.
fn is_torn(lines: &[u8], rest: &[u8]) -> bool {
    let written = lines.strip_suffix(rest).unwrap_or_default();
    written.last().is_some_and(|byte| *byte != b'\n')
}

/// Waits, for a bounded time, until the log is written to standard error.
pub(super) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.wait_until_written(ENDS_WITHIN);
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = LogQueue;

    fn make_writer(&'a self) -> LogQueue {
        self.clone()
    }
}

/// Each call is one line.
impl Write for LogQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

    use super::*;

    /// Accepts a chunk whenever the test asks for one; before that, writes would block.
    struct Slow {
        pieces: SyncSender<Vec<u8>>,
        refuses: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.refuses = !self.refuses;
            if self.refuses {
                return Err(ErrorKind::WouldBlock.into());
            }
            let piece = bytes.get(..bytes.len().min(100_000)).unwrap_or(bytes);
            self.pieces.send(piece.to_vec()).map_err(|_| ErrorKind::BrokenPipe)?;
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (LogQueue, Receiver<Vec<u8>>) {
        let (pieces, read) = sync_channel(0);
        (LogQueue::before(Slow { pieces, refuses: false }), read)
    }

    #[test]
    fn push_beyond_the_bound_drops_whole_lines() {
        let (queue, read) = slow();
        let line = [&[b'x'; 1_023][..], b"\n"].concat();
        for _ in 0..1_500 {
            queue.push(&line);
        }
        assert_eq!(queue.dropped(), 1_500 - 1_024);
        let mut written = Vec::new();
        while written.len() < BYTES_MAX {
            written.extend(read.recv().expect("a piece"));
        }
        assert!(written.chunks(1_024).all(|one| one == line), "a line is torn");
        // The last chunk may still be in transit.
        queue.wait_until_written(ENDS_WITHIN);
        queue.push(&line);
        assert_eq!((read.recv().expect("a line"), queue.dropped()), (line, 476), "it flows again");
    }

    #[test]
    fn wait_until_written_is_bounded() {
        let (queue, read) = slow();
        queue.push(b"one\n");
        queue.wait_until_written(Duration::from_millis(1));
        let reading = thread::spawn(move || read.recv().map(|piece| (piece, read)));
        queue.wait_until_written(Duration::from_mins(1));
        let (piece, read) = reading.join().expect("it reads").expect("a piece");
        assert_eq!(piece, b"one\n");
        // Lines that a closed log does not accept count as dropped, and do not block.
        drop(read);
        for _ in 0..100 {
            queue.push(b"one\n");
            queue.wait_until_written(Duration::from_mins(1));
        }
        assert_eq!(queue.dropped(), 100);
    }

    #[test]
    fn line_after_partial_write_begins_a_line() {
        struct Full(SyncSender<Vec<u8>>, usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let room = self.1.min(bytes.len());
                self.1 = if room == 0 { usize::MAX } else { self.1 - room };
                if room == 0 {
                    return Err(ErrorKind::StorageFull.into());
                }
                self.0
                    .send(bytes.get(..room).unwrap_or_default().to_vec())
                    .map_err(|_| ErrorKind::BrokenPipe)?;
                Ok(room)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let (pieces, read) = sync_channel(8);
        let queue = LogQueue::before(Full(pieces, 6));
        for line in [&b"one\ntwo\n"[..], b"three\n"] {
            queue.push(line);
            queue.wait_until_written(Duration::from_mins(1));
        }
        let written: Vec<u8> = read.try_iter().flatten().collect();
        assert_eq!(String::from_utf8_lossy(&written), "one\ntw\nthree\n");
        assert_eq!(queue.dropped(), 1);
    }
}
