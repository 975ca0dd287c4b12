//! Turns of a connection: in one turn it reads a little, and begins the calls that it has read; then it is the turn of these
//! calls, of other connections, and of the ledger. Else whoever sends many small calls, and takes them back again, has them
//! all begun before the first one ends: they take memory, and everybody else waits behind them.
//!
//! A connection that has more to read than one turn takes waits in a line for the next one, and few turns are taken at a
//! time. Who sends little never waits there, and the ledger's own tasks wait behind few others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

use super::open::Open;

/// How many calls a turn is to begin: at first, and at the most.
const FIRST: usize = 16;
const MOST: usize = 128;
/// How many bytes are read for them.
const BYTES_LEAST: usize = 128;
const BYTES_MOST: usize = 16 * 1_024;
/// Whoever waits for longer until its turn comes begins fewer calls in it, and so leaves more to others.
const WAIT: Duration = Duration::from_millis(10);
/// For each thread of the runtime, so many connections of the line have their turn at a time.
const AT_ONCE: usize = 4;

/// Where those wait that have more to read, first come, first served. Cheap to clone.
#[derive(Clone)]
pub(super) struct Line(Arc<Semaphore>);

impl Line {
    /// Of the runtime on which it is called.
    pub(super) fn new() -> Line {
        Line(Arc::new(Semaphore::new(AT_ONCE * Handle::current().metrics().num_workers())))
    }
}

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

    /// How many bytes may be read now. Where it is none, [`Turns`] wakes the reader for its next turn, or calls do as they end.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<usize> {
        match self.left.load(Ordering::Relaxed) {
            0 => Poll::Pending,
            left => self.open.poll_few(context).map(|()| left),
        }
    }

    pub(super) fn took(&self, bytes: usize) {
        self.left.fetch_sub(bytes, Ordering::Relaxed);
    }
}

pin_project! {
    /// Serves a connection turn by turn: each time that it is polled another one begins, unless it waits in the line.
    pub(super) struct Turns<C> {
        #[pin]
        connection: C,
        turn: Turn,
        share: Share,
        line: PollSemaphore,
        // It has more to read, and waits for its turn.
        waits_since: Option<Instant>,
        place: Option<OwnedSemaphorePermit>,
    }
}

impl<C> Turns<C> {
    pub(super) fn new(connection: C, turn: Turn, line: Line) -> Turns<C> {
        let share = Share { calls: FIRST, of_a_call: BYTES_LEAST };
        Turns { connection, turn, share, line: PollSemaphore::new(line.0), waits_since: None, place: None }
    }

    pub(super) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future> Future for Turns<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        if let Some(since) = *this.waits_since {
            if this.place.is_none()
                && let Poll::Ready(place) = this.line.poll_acquire(context)
            {
                *this.place = place;
            }
            if this.place.is_some() {
                this.share.waited(since.elapsed());
                *this.waits_since = None;
            }
        }
        // Who waits may write meanwhile.
        let bytes = if this.waits_since.is_none() { this.share.bytes() } else { 0 };
        let begun = this.turn.open.begun();
        this.turn.left.store(bytes, Ordering::Relaxed);
        let polled = this.connection.poll(context);
        // The turn is over, and the next one in the line is called.
        *this.place = None;
        if bytes > 0 && this.turn.left.load(Ordering::Relaxed) == 0 {
            this.share.took(bytes, this.turn.open.begun() - begun);
            *this.waits_since = Some(Instant::now());
            if let Poll::Ready(place) = this.line.poll_acquire(context) {
                *this.place = place;
                context.waker().wake_by_ref();
            }
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
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::task::{Wake, Waker};

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::rpc::edge::accept::unread::{Unread, Waiting};

    /// Reads so many bytes, in one turn or in many.
    struct Reader {
        turn: Turn,
        bytes: usize,
    }

    impl Future for Reader {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            while self.bytes > 0 {
                let Poll::Ready(room) = self.turn.poll_room(context) else { return Poll::Pending };
                let bytes = room.min(self.bytes);
                self.turn.took(bytes);
                self.bytes -= bytes;
            }
            Poll::Ready(())
        }
    }

    /// Who was woken, in this order.
    type Woken = Arc<Mutex<VecDeque<usize>>>;

    struct Wakes(usize, Woken);

    impl Wake for Wakes {
        fn wake(self: Arc<Wakes>) {
            let mut woken = self.1.lock().expect("never poisoned");
            if !woken.contains(&self.0) {
                woken.push_back(self.0);
            }
        }
    }

    #[tokio::test]
    async fn few_have_their_turn_at_a_time_and_all_have_it_one_after_the_other() {
        const READERS: usize = 10;
        let (line, woken) = (Line::new(), Woken::default());
        let mut readers: Vec<_> = (0..=READERS)
            .map(|number| {
                let open = Open::new(Unread::new(1, Waiting::new(1), CancellationToken::new()));
                let turn = Turn::new(open);
                let bytes = if number == READERS { FIRST * BYTES_LEAST - 1 } else { usize::MAX };
                Box::pin(Turns::new(Reader { turn: turn.clone(), bytes }, turn, line.clone()))
            })
            .collect();
        let mut poll = |number: usize| {
            let waker = Waker::from(Arc::new(Wakes(number, Arc::clone(&woken))));
            let polled = readers[number].as_mut().poll(&mut Context::from_waker(&waker));
            (polled.is_ready(), usize::MAX - readers[number].connection.bytes)
        };
        let now = || woken.lock().expect("never poisoned").iter().copied().collect::<Vec<_>>();
        let first = FIRST * BYTES_LEAST;
        for number in 0..READERS {
            assert_eq!(poll(number), (false, first), "each begins with a turn");
        }
        assert_eq!(now(), [0, 1, 2, 3], "all others wait");
        assert_eq!(poll(READERS), (true, usize::MAX), "whoever reads little waits for nobody");
        assert_eq!(poll(9), (false, first), "it was not called");
        for called in (0..READERS).cycle().take(3 * READERS) {
            assert_eq!(woken.lock().expect("never poisoned").pop_front(), Some(called));
            let (ended, read) = poll(called);
            assert!(!ended && read > first, "{called} read {read}");
            assert_eq!(now().len(), AT_ONCE);
        }
    }

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
