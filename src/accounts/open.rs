//! The calls that are open on a connection, and how much of it may be read.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

/// Streams that one connection may have open.
pub(crate) const STREAMS_MAX: u32 = 256;
/// With more calls open nothing is read of their connection: the client has reset at least half of these.
const READ_UP_TO: usize = 2 * STREAMS_MAX as usize;

/// How many calls are open on a connection, and how many there ever were.
#[derive(Default)]
pub(crate) struct Open {
    now: AtomicUsize,
    begun: AtomicU64,
    /// How many bytes may still be read in this turn. It is here since each turn looks at all of this.
    room: AtomicUsize,
    /// The reader of the connection, which waits until fewer calls are open.
    reader: AtomicWaker,
}

impl Open {
    pub(crate) fn is_none(&self) -> bool {
        self.now.load(Ordering::SeqCst) == 0
    }

    /// How many calls are open, give or take those that begin or end just now.
    pub(crate) fn calls(&self) -> usize {
        self.now.load(Ordering::Relaxed)
    }

    /// How many calls began since the connection did: a look at the clock for each of them would cost more.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// How many bytes may still be read in this turn of the connection.
    pub(crate) fn room(&self) -> &AtomicUsize {
        &self.room
    }

    /// Ready where no more calls are open than the client can have. The client has reset all others, and they end as soon
    /// as they have their turn: a reader that goes on before that gathers them without a bound.
    pub(crate) fn poll_few(&self, context: &Context<'_>) -> Poll<()> {
        let are_few = || self.now.load(Ordering::SeqCst) <= READ_UP_TO;
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

    /// One more that is open: a part of a call that began.
    pub(super) fn hold(&self) {
        self.now.fetch_add(1, Ordering::SeqCst);
    }

    /// A call, or a part of one, ends.
    pub(super) fn end(&self) {
        if self.now.fetch_sub(1, Ordering::SeqCst) == READ_UP_TO + 1 {
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
    fn nothing_is_read_while_too_many_calls_are_open() {
        let open = Open::default();
        let woken = Arc::new(Woken::default());
        let waker = Arc::clone(&woken).into();
        let context = Context::from_waker(&waker);
        for _ in 0..READ_UP_TO {
            open.begin();
        }
        assert!(open.poll_few(&context).is_ready());
        open.begin();
        open.begin();
        assert!(open.poll_few(&context).is_pending());
        open.end();
        assert!(open.poll_few(&context).is_pending());
        assert!(!woken.0.load(Ordering::SeqCst));
        open.end();
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(open.poll_few(&context).is_ready());
    }
}
