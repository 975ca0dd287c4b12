//! What is open on a connection: its calls, and what is unread of their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::task::AtomicWaker;

use super::unread::Unread;

/// Streams that one connection may have open.
pub(super) const STREAMS_MAX: u32 = 256;
/// With more calls open nothing is read of their connection: half of these its client has taken back at the least.
const READ_UP_TO: usize = 2 * STREAMS_MAX as usize;

/// How many calls are open on a connection, how many there ever were, and what is unread of their answers.
#[derive(Clone)]
pub(super) struct Open(Arc<Counts>);

struct Counts {
    open: AtomicUsize,
    begun: AtomicU64,
    /// How many bytes may still be read in this turn. It is here since each turn looks at all of this.
    room: AtomicUsize,
    unread: Unread,
    /// Who reads the connection, and waits until fewer are open.
    reader: AtomicWaker,
}

impl Open {
    pub(super) fn new(unread: Unread) -> Open {
        Open(Arc::new(Counts {
            open: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            room: AtomicUsize::new(0),
            unread,
            reader: AtomicWaker::new(),
        }))
    }

    pub(super) fn is_none(&self) -> bool {
        self.0.open.load(Ordering::SeqCst) == 0
    }

    /// How many calls are open, give or take those that begin or end just now.
    pub(super) fn calls(&self) -> usize {
        self.0.open.load(Ordering::Relaxed)
    }

    /// How many calls began since the connection did: a look at the clock for each of them would cost more.
    pub(super) fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::Relaxed)
    }

    /// How many bytes may still be read: a [`Turn`](super::turns::Turn) counts them.
    pub(super) fn room(&self) -> &AtomicUsize {
        &self.0.room
    }

    /// Ready where no more are open than the client can have. All others it has taken back, and they end as soon as they
    /// have their turn: whoever reads on before that gathers them without a bound.
    pub(super) fn poll_few(&self, context: &Context<'_>) -> Poll<()> {
        let are_few = || self.0.open.load(Ordering::SeqCst) <= READ_UP_TO;
        if are_few() {
            return Poll::Ready(());
        }
        self.0.reader.register(context.waker());
        // They may have ended meanwhile.
        if are_few() { Poll::Ready(()) } else { Poll::Pending }
    }

    pub(super) fn begin(&self) -> Call {
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        self.hold()
    }

    /// One more that is open: a part of a call that began.
    pub(super) fn hold(&self) -> Call {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        Call(self.clone())
    }
}

/// One of them, for as long as this lives.
pub(super) struct Call(Open);

impl Call {
    /// Counts a piece of its answer, for as long as it is kept anywhere.
    pub(super) fn answers(&self, data: Bytes) -> Bytes {
        let Open(counts) = &self.0;
        counts.unread.counted(data)
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let Open(counts) = &self.0;
        if counts.open.fetch_sub(1, Ordering::SeqCst) == READ_UP_TO + 1 {
            counts.reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::rpc::edge::accept::unread::Waiting;

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn nothing_is_read_while_too_many_calls_are_open() {
        let open = Open::new(Unread::new(1, Waiting::new(1), CancellationToken::new()));
        let woken = Arc::new(Woken::default());
        let waker = Arc::clone(&woken).into();
        let context = Context::from_waker(&waker);
        let mut calls: Vec<Call> = (0..READ_UP_TO).map(|_| open.begin()).collect();
        assert!(open.poll_few(&context).is_ready());
        calls.extend([open.begin(), open.begin()]);
        assert!(open.poll_few(&context).is_pending());
        calls.pop();
        assert!(open.poll_few(&context).is_pending());
        assert!(!woken.0.load(Ordering::SeqCst));
        calls.pop();
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(open.poll_few(&context).is_ready());
    }
}
