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

/// How many calls a turn is to begin: at first, and at the most.
const FIRST: usize = 16;
const MOST: usize = 128;
/// How many bytes are read for them.
const BYTES_LEAST: usize = 128;
const BYTES_MOST: usize = 16 * 1_024;
/// Whoever waits for longer until its turn comes begins fewer calls in it, and so leaves more to others.
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
        share: Share,
        waits_since: Option<Instant>,
    }
}

impl<C> Turns<C> {
    pub(super) fn new(connection: C, turn: Turn) -> Turns<C> {
        let share = Share { calls: FIRST, of_a_call: BYTES_LEAST };
        Turns { connection, turn, share, waits_since: None }
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
            this.share.waited(since.elapsed());
        }
        let (bytes, begun) = (this.share.bytes(), this.turn.open.begun());
        this.turn.left.store(bytes, Ordering::Relaxed);
        let polled = this.connection.poll(context);
        let left = this.turn.left.load(Ordering::Relaxed);
        if left == 0 {
            this.share.took(bytes, this.turn.open.begun() - begun);
            *this.waits_since = Some(Instant::now());
        }
        polled
    }
}

/// What a connection may take in its next turn.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    calls: usize,
    /// How many bytes it sends for each of its calls.
    of_a_call: usize,
}

impl Share {
    fn bytes(&self) -> usize {
        (self.calls * self.of_a_call).clamp(BYTES_LEAST, BYTES_MOST)
    }

    /// Its turn came after this time.
    fn waited(&mut self, time: Duration) {
        self.calls = if time > WAIT { (self.calls / 2).max(1) } else { (self.calls * 2).min(MOST) };
    }

    /// It took all of its turn, and began so many calls. What comes next may be small again: its calls are taken for larger
    /// ones little by little.
    fn took(&mut self, bytes: usize, begun: u64) {
        let begun = usize::try_from(begun).unwrap_or(usize::MAX);
        let of_a_call = bytes.checked_div(begun).unwrap_or(BYTES_MOST);
        self.of_a_call = of_a_call.clamp(1, 2 * self.of_a_call).min(BYTES_MOST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: u64 = 10;
    const LATE: u64 = 11;

    /// What is read in a turn after some others: how long each was waited for, and how many bytes each of its calls has.
    fn bytes_after(turns: &[(u64, usize)]) -> usize {
        let mut share = Share { calls: FIRST, of_a_call: BYTES_LEAST };
        for (waited, of_a_call) in turns {
            let bytes = share.bytes();
            share.took(bytes, (bytes / of_a_call) as u64);
            share.waited(Duration::from_millis(*waited));
        }
        share.bytes()
    }

    #[test]
    fn the_longer_a_turn_is_waited_for_the_fewer_calls_it_begins() {
        let times = |times: usize, waited, of_a_call| vec![(waited, of_a_call); times];
        let of = |parts: &[Vec<(u64, usize)>]| bytes_after(&parts.concat());
        assert_eq!(of(&[]), 2_048);
        // Small calls: as many as can be, or one or two.
        assert_eq!(of(&[times(10, SOON, 100)]), MOST * 100);
        assert_eq!(of(&[times(10, LATE, 100)]), BYTES_LEAST);
        assert_eq!(of(&[times(10, LATE, 100), times(2, SOON, 100)]), 4 * 128);
        // A large message is read in large parts, however long its turns are waited for.
        assert_eq!(of(&[times(10, LATE, 100_000)]), BYTES_MOST);
        assert_eq!(of(&[times(10, SOON, 100_000)]), BYTES_MOST);
        // Whoever sends both is taken for one that sends small calls.
        assert_eq!(of(&[times(10, LATE, 100_000), times(1, LATE, 100)]), BYTES_LEAST);
        assert!(of(&[times(10, LATE, 100), times(3, LATE, 100_000)]) <= 1_024);
    }
}
