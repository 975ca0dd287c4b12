//! Turns of a connection: in one turn it reads a little, and begins the calls that it has read; then it is the turn of these
//! calls, of other connections, and of the ledger. Else whoever sends many small calls, and takes them back again, has them
//! all begun before the first one ends: they take memory, and everybody else waits behind them.
//!
//! A connection that has more to read than one turn takes waits in a line for the next one, and few turns are taken at a
//! time. Who sends little never waits there, and the ledger's own tasks wait behind few others.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;
use tokio::sync::oneshot;

use crate::accounts::{ConnectionAccount, Open};
use crate::listener::fairness::scheduler::{Line, Place};

/// How many bytes are read in a turn.
const BYTES_LEAST: usize = 128;
pub(in crate::listener) const BYTES_MOST: usize = 16 * 1_024;

/// What may still be read in this turn. Cheap to clone.
#[derive(Clone)]
pub(in crate::listener) struct Turn {
    account: Arc<ConnectionAccount>,
}

impl Turn {
    pub(in crate::listener) fn new(account: Arc<ConnectionAccount>) -> Turn {
        Turn { account }
    }

    fn open(&self) -> &Open {
        self.account.open()
    }

    /// How many bytes may be read now. Where it is none, [`Turns`] wakes the reader for its next turn, or calls do as they end.
    pub(in crate::listener) fn poll_room(&self, context: &Context<'_>) -> Poll<usize> {
        match self.open().room().load(Ordering::Relaxed) {
            0 => Poll::Pending,
            left => self.open().poll_few(context).map(|()| left),
        }
    }

    /// Bytes were read of the connection.
    pub(in crate::listener) fn took(&self, bytes: usize) {
        self.account.moved(bytes);
        self.open().room().fetch_sub(bytes, Ordering::Relaxed);
    }
}

pin_project! {
    /// Serves a connection turn by turn: each time that it is polled another one begins, unless it waits in the line.
    pub(in crate::listener) struct Turns<C> {
        #[pin]
        connection: C,
        turn: Turn,
        // How many bytes it sends for each of its calls.
        of_a_call: usize,
        line: Line,
        address: IpAddr,
        // It has more to read, and waits for its turn.
        waits_since: Option<Instant>,
        called: Option<oneshot::Receiver<Place>>,
        place: Option<Place>,
    }
}

impl<C> Turns<C> {
    pub(in crate::listener) fn new(connection: C, turn: Turn, line: Line, address: IpAddr) -> Turns<C> {
        let of_a_call = BYTES_LEAST;
        Turns { connection, turn, of_a_call, line, address, waits_since: None, called: None, place: None }
    }

    pub(in crate::listener) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future> Future for Turns<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        if let Some(since) = *this.waits_since {
            called(this.called, this.place, context);
            if this.place.is_some() {
                this.line.pace().waited(since.elapsed());
                *this.waits_since = None;
            }
        }
        // Who waits may write meanwhile.
        let bytes =
            if this.waits_since.is_none() { bytes_of(this.line.pace().calls(), *this.of_a_call) } else { 0 };
        let begun = this.turn.open().begun();
        this.turn.open().room().store(bytes, Ordering::Relaxed);
        let polled = this.connection.poll(context);
        // The turn is over, and the next one in the line is called.
        *this.place = None;
        if bytes > 0 && this.turn.open().room().load(Ordering::Relaxed) == 0 {
            *this.of_a_call = took(*this.of_a_call, bytes, this.turn.open().begun() - begun);
            *this.waits_since = Some(Instant::now());
            *this.called = Some(this.line.enter(*this.address));
            called(this.called, this.place, context);
            if this.place.is_some() {
                context.waker().wake_by_ref();
            }
        }
        polled
    }
}

/// Takes the place to which the line has called, or is woken once it calls.
fn called(from: &mut Option<oneshot::Receiver<Place>>, place: &mut Option<Place>, context: &mut Context<'_>) {
    if let Some(line) = from
        && let Poll::Ready(called) = Pin::new(line).poll(context)
    {
        // The line calls each of those that wait.
        (*from, *place) = (None, called.ok());
    }
}

/// How many bytes are read in a turn that is to begin so many calls, of so many bytes each.
fn bytes_of(calls: usize, of_a_call: usize) -> usize {
    (calls * of_a_call).clamp(BYTES_LEAST, BYTES_MOST)
}

/// How many bytes a call is taken to have, after a turn took all of its bytes and began so many calls. What comes next may be
/// small again: calls are taken for larger ones little by little.
fn took(of_a_call: usize, bytes: usize, begun: u64) -> usize {
    let begun = usize::try_from(begun).unwrap_or(usize::MAX);
    bytes.checked_div(begun).unwrap_or(BYTES_MOST).clamp(1, 2 * of_a_call).min(BYTES_MOST)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::task::{Wake, Waker};

    use super::*;
    use crate::accounts::for_tests;
    use crate::listener::fairness::adaptive_budget::{FIRST, MOST};
    use crate::listener::fairness::scheduler::AT_ONCE;

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
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut readers: Vec<_> = (0..=READERS)
            .map(|number| {
                let turn = Turn::new(for_tests::connection());
                let bytes = if number == READERS { FIRST * BYTES_LEAST - 1 } else { usize::MAX };
                Box::pin(Turns::new(Reader { turn: turn.clone(), bytes }, turn, line.clone(), address))
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

    #[test]
    fn what_is_read_in_a_turn_follows_from_how_large_calls_are() {
        // How many bytes the calls of some turns had, one after the other; how many calls the next one is to begin, and how
        // many bytes it reads.
        let times = |times: usize, of_a_call: usize| vec![of_a_call; times];
        for (turns, calls, expected) in [
            (vec![], FIRST, 2_048),
            (times(10, 100), MOST, MOST * 100),
            (times(10, 100), 1, BYTES_LEAST),
            (times(10, 100), 4, 408),
            // A large message is read in large parts, however few calls a turn begins.
            (times(10, 100_000), 1, BYTES_MOST),
            (times(10, 100_000), MOST, BYTES_MOST),
            // Whoever sends both is taken for one that sends small calls.
            ([times(10, 100_000), times(1, 100)].concat(), 1, BYTES_LEAST),
            ([times(10, 100), times(3, 100_000)].concat(), 1, 1_024),
        ] {
            let of_a_call = turns.iter().fold(BYTES_LEAST, |before, of_a_call| {
                let bytes = bytes_of(calls, before);
                took(before, bytes, (bytes / of_a_call) as u64)
            });
            assert_eq!(bytes_of(calls, of_a_call), expected, "{turns:?} {calls}");
        }
    }
}
