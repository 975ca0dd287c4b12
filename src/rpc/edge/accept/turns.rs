//! Turns of a connection: in one turn it reads a little, and begins the calls that it has read; then it is the turn of these
//! calls, of other connections, and of the ledger. Else whoever sends many small calls, and takes them back again, has them
//! all begun before the first one ends: they take memory, and everybody else waits behind them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;

use super::calls::Open;

/// How many bytes are read in one turn: at first, at the most, and where there is much to do. These are some 7 calls.
const FIRST: usize = 2 * 1_024;
const MOST: usize = 16 * 1_024;
const LEAST: usize = 512;
/// Whoever waits for longer until its turn comes reads less in it, and so leaves more to others.
const WAIT: Duration = Duration::from_millis(10);

/// What may still be read in this turn. Cheap to clone.
#[derive(Clone)]
pub(super) struct Turn {
    left: Arc<AtomicUsize>,
    open: Open,
}

impl Turn {
    pub(super) fn new(open: Open) -> Turn {
        Turn { left: Arc::default(), open }
    }

    /// How many bytes may be read now. Where it is none, the next turn is asked for, or comes as calls end.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<usize> {
        match self.left.load(Ordering::Relaxed) {
            0 => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            left => self.open.poll_few(context).map(|()| left),
        }
    }

    pub(super) fn took(&self, bytes: usize) {
        self.left.fetch_sub(bytes, Ordering::Relaxed);
    }
}

pin_project! {
    /// Serves a connection turn by turn: each time that it is polled another one begins.
    pub(super) struct Turns<C> {
        #[pin]
        connection: C,
        turn: Turn,
        bytes: usize,
        waits_since: Option<Instant>,
    }
}

impl<C> Turns<C> {
    pub(super) fn new(connection: C, turn: Turn) -> Turns<C> {
        Turns { connection, turn, bytes: FIRST, waits_since: None }
    }

    pub(super) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future> Future for Turns<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        if let Some(since) = this.waits_since.take() {
            *this.bytes = next(*this.bytes, since.elapsed());
        }
        this.turn.left.store(*this.bytes, Ordering::Relaxed);
        let polled = this.connection.poll(context);
        if this.turn.left.load(Ordering::Relaxed) == 0 {
            *this.waits_since = Some(Instant::now());
        }
        polled
    }
}

/// How many bytes are read in the turn that comes after so long a wait.
fn next(bytes: usize, waited: Duration) -> usize {
    if waited > WAIT { (bytes / 2).max(LEAST) } else { (bytes * 2).min(MOST) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_turn_is_waited_for_the_less_is_read_in_it() {
        let after = |waits: &[u64]| {
            waits.iter().fold(FIRST, |bytes, millis| next(bytes, Duration::from_millis(*millis)))
        };
        assert_eq!(after(&[0, 10, 1]), MOST);
        assert_eq!(after(&[0, 0, 0, 0]), MOST);
        assert_eq!(after(&[11, 100]), LEAST);
        assert_eq!(after(&[11, 100, 1_000, 11]), LEAST);
        assert_eq!(after(&[11, 10]), FIRST);
    }
}
