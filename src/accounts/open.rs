//! The open calls of a connection, and how much of it may be read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

/// Maximum number of open streams of one connection (`SETTINGS_MAX_CONCURRENT_STREAMS`).
pub(crate) const STREAMS_MAX: u32 = 256;
/// With more open calls than this, their connection is not read: the client has reset at least half of them (rapid reset).
const READ_UP_TO_CALLS: usize = 2 * STREAMS_MAX as usize;

/// The number of open calls of a connection, and how many calls began on it.
#[derive(Default)]
pub(crate) struct OpenCalls {
    now: AtomicUsize,
    begun: AtomicU64,
    /// Bytes that the current poll may still read. Here, since each poll looks at all of these counters.
    bytes_left: AtomicUsize,
    /// The reader of the connection, which waits until fewer calls are open.
    reader: AtomicWaker,
}

impl OpenCalls {
    pub(crate) fn is_none(&self) -> bool {
        self.now.load(Ordering::SeqCst) == 0
    }

    /// Number of open calls; calls that begin or end concurrently may be missing.
    pub(crate) fn calls(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// Number of calls that began on the connection: cheaper than reading a clock for each of them.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Bytes that the current poll of the connection may still read.
    pub(crate) fn bytes_left(&self) -> &AtomicUsize {
        &self.bytes_left
    }

    /// Ready while no more calls are open than twice what the client may have. The others were reset by the client, and end once
    /// they are polled: a reader that goes on before that gathers them without bound.
    pub(crate) fn poll_readable(&self, context: &Context<'_>) -> Poll<()> {
        let are_few = || self.now.load(Ordering::SeqCst) <= READ_UP_TO_CALLS;
        if are_few() {
            return Poll::Ready(());
        }
        self.reader.register(context.waker());
        // They may have ended meanwhile.
        if are_few() { Poll::Ready(()) } else { Poll::Pending }
    }

    /// A call begins.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.hold();
    }

    /// Counts a part of a call that has begun.
    pub(super) fn hold(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
    }

    /// A call, or a part of one, ends.
    pub(super) fn end(&self) {
        if self.now.fetch_sub(1, Ordering::SeqCst) == READ_UP_TO_CALLS + 1 {
            self.reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_connection_is_not_read_while_too_many_calls_are_open() {
        let open = OpenCalls::default();
        let woken = Arc::new(Woken::default());
        let waker = Arc::clone(&woken).into();
        let context = Context::from_waker(&waker);
        for _ in 0..READ_UP_TO_CALLS {
            open.begin();
        }
        assert!(open.poll_readable(&context).is_ready());
        open.begin();
        open.begin();
        assert!(open.poll_readable(&context).is_pending());
        open.end();
        assert!(open.poll_readable(&context).is_pending());
        assert!(!woken.0.load(Ordering::SeqCst));
        open.end();
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(open.poll_readable(&context).is_ready());
    }
}
