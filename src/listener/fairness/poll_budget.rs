//! The poll budget: how many bytes one poll of a connection reads. It then yields to the calls that it began, to other
//! connections and to the ledger's tasks.
//!
//! Without it hyper reads until the socket is empty, and a rapid-reset flood is accepted without bound before its first call
//! ends: 100 connections, each with 10,000 calls that were reset immediately, took a server of one thread from 30 MiB to
//! 1.1 GiB, and starved the store ("does not answer"). With it the same flood takes 44 MiB, and a healthy client next to it is
//! answered within 50 to 120 ms (`tests/it/edge/floods`). The flood is not ended by GOAWAY: it has its share.
//!
//! A connection with more to read than one budget waits for a permit of the [read scheduler](super::scheduler). A connection
//! that sends little never waits there.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;
use tokio::sync::oneshot;

use crate::accounts::{ConnectionAccount, OpenCalls};
use crate::listener::fairness::scheduler::{ReadPermit, ReadScheduler};

/// Bounds of the bytes that one poll reads. The upper one is also the size in which a large message is read.
const BYTES_MIN: usize = 128;
pub(in crate::listener) const BYTES_MAX: usize = 16 * 1_024;

/// The bytes that the current poll may still read. Cheap to clone.
#[derive(Clone)]
pub(in crate::listener) struct PollBudget {
    account: Arc<ConnectionAccount>,
}

impl PollBudget {
    pub(in crate::listener) fn new(account: Arc<ConnectionAccount>) -> PollBudget {
        PollBudget { account }
    }

    fn open(&self) -> &OpenCalls {
        self.account.open()
    }

    /// How many bytes may be read now. `Pending` if there are none: [`BudgetedConnection`] wakes the reader for its next
    /// permit, or calls wake it as they end.
    pub(in crate::listener) fn poll_bytes_left(&self, context: &Context<'_>) -> Poll<usize> {
        match self.open().bytes_left().load(Ordering::Relaxed) {
            0 => Poll::Pending,
            left => self.open().poll_readable(context).map(|()| left),
        }
    }

    /// Takes bytes that were read off the budget.
    pub(in crate::listener) fn took(&self, bytes: usize) {
        self.account.moved(bytes);
        self.open().bytes_left().fetch_sub(bytes, Ordering::Relaxed);
    }
}

pin_project! {
    /// Serves a connection within a poll budget: each poll has a new one, unless the connection waits for a read permit.
    pub(in crate::listener) struct BudgetedConnection<C> {
        #[pin]
        connection: C,
        budget: PollBudget,
        // Estimate of the bytes that the client sends for each call.
        call_bytes: usize,
        scheduler: ReadScheduler,
        address: IpAddr,
        // Since when it has more to read and waits for a read permit.
        waiting_since: Option<Instant>,
        granted: Option<oneshot::Receiver<ReadPermit>>,
        permit: Option<ReadPermit>,
    }
}

impl<C> BudgetedConnection<C> {
    pub(in crate::listener) fn new(
        connection: C,
        budget: PollBudget,
        scheduler: ReadScheduler,
        address: IpAddr,
    ) -> BudgetedConnection<C> {
        let call_bytes = BYTES_MIN;
        BudgetedConnection {
            connection,
            budget,
            call_bytes,
            scheduler,
            address,
            waiting_since: None,
            granted: None,
            permit: None,
        }
    }

    pub(in crate::listener) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future> Future for BudgetedConnection<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        if let Some(since) = *this.waiting_since {
            poll_permit(this.granted, this.permit, context);
            if this.permit.is_some() {
                this.scheduler.adaptive_budget().waited(since.elapsed());
                *this.waiting_since = None;
            }
        }
        // A connection that waits for a permit reads nothing, but may write.
        let bytes = if this.waiting_since.is_none() {
            budget_bytes(this.scheduler.adaptive_budget().calls(), *this.call_bytes)
        } else {
            0
        };
        let begun = this.budget.open().begun();
        this.budget.open().bytes_left().store(bytes, Ordering::Relaxed);
        let polled = this.connection.poll(context);
        // The budget is used or not needed: the scheduler grants the permit to the next connection.
        *this.permit = None;
        if bytes > 0 && this.budget.open().bytes_left().load(Ordering::Relaxed) == 0 {
            *this.call_bytes = took(*this.call_bytes, bytes, this.budget.open().begun() - begun);
            *this.waiting_since = Some(Instant::now());
            *this.granted = Some(this.scheduler.request(*this.address));
            poll_permit(this.granted, this.permit, context);
            if this.permit.is_some() {
                context.waker().wake_by_ref();
            }
        }
        polled
    }
}

/// Takes the permit if the scheduler has granted it; otherwise the scheduler wakes this connection.
fn poll_permit(
    from: &mut Option<oneshot::Receiver<ReadPermit>>,
    permit: &mut Option<ReadPermit>,
    context: &mut Context<'_>,
) {
    if let Some(receiver) = from
        && let Poll::Ready(granted) = Pin::new(receiver).poll(context)
    {
        // The scheduler grants a permit to each connection that waits.
        (*from, *permit) = (None, granted.ok());
    }
}

/// Bytes of a budget that should begin this number of calls, of this many bytes each.
fn budget_bytes(calls: usize, call_bytes: usize) -> usize {
    (calls * call_bytes).clamp(BYTES_MIN, BYTES_MAX)
}

/// The estimate of the bytes of a call, after a poll used up its budget and began this number of calls. It at most doubles:
/// the next calls may be small again.
fn took(call_bytes: usize, bytes: usize, begun: u64) -> usize {
    let begun = usize::try_from(begun).unwrap_or(usize::MAX);
    bytes.checked_div(begun).unwrap_or(BYTES_MAX).clamp(1, 2 * call_bytes).min(BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::task::{Wake, Waker};

    use super::*;
    use crate::accounts::for_tests;
    use crate::listener::fairness::adaptive_budget::{CALLS_FIRST, CALLS_MAX};
    use crate::listener::fairness::scheduler::PERMITS_PER_THREAD;

    /// Reads this number of bytes, in one poll or in many.
    struct Reader {
        budget: PollBudget,
        bytes: usize,
    }

    impl Future for Reader {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            while self.bytes > 0 {
                let Poll::Ready(room) = self.budget.poll_bytes_left(context) else { return Poll::Pending };
                let bytes = room.min(self.bytes);
                self.budget.took(bytes);
                self.bytes -= bytes;
            }
            Poll::Ready(())
        }
    }

    /// The connections that were woken, in order.
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
    async fn few_connections_have_a_permit_at_a_time_and_each_has_one_in_turn() {
        const READERS: usize = 10;
        let (scheduler, woken) = (ReadScheduler::new(), Woken::default());
        let address = IpAddr::from([192, 0, 2, 1]);
        let mut readers: Vec<_> = (0..=READERS)
            .map(|number| {
                let budget = PollBudget::new(for_tests::connection());
                let bytes = if number == READERS { CALLS_FIRST * BYTES_MIN - 1 } else { usize::MAX };
                Box::pin(BudgetedConnection::new(
                    Reader { budget: budget.clone(), bytes },
                    budget,
                    scheduler.clone(),
                    address,
                ))
            })
            .collect();
        let mut poll = |number: usize| {
            let waker = Waker::from(Arc::new(Wakes(number, Arc::clone(&woken))));
            let polled = readers[number].as_mut().poll(&mut Context::from_waker(&waker));
            (polled.is_ready(), usize::MAX - readers[number].connection.bytes)
        };
        let now = || woken.lock().expect("never poisoned").iter().copied().collect::<Vec<_>>();
        let first = CALLS_FIRST * BYTES_MIN;
        for number in 0..READERS {
            assert_eq!(poll(number), (false, first), "each begins with a budget");
        }
        assert_eq!(now(), [0, 1, 2, 3], "all others wait");
        assert_eq!(poll(READERS), (true, usize::MAX), "a connection that sends little does not wait");
        assert_eq!(poll(9), (false, first), "it has no permit");
        for granted in (0..READERS).cycle().take(3 * READERS) {
            assert_eq!(woken.lock().expect("never poisoned").pop_front(), Some(granted));
            let (ended, read) = poll(granted);
            assert!(!ended && read > first, "{granted} read {read}");
            assert_eq!(now().len(), PERMITS_PER_THREAD);
        }
    }

    #[test]
    fn the_budget_in_bytes_follows_the_size_of_calls() {
        // Bytes of the calls in consecutive polls; the number of calls that the next budget should begin, and its bytes.
        let times = |times: usize, call_bytes: usize| vec![call_bytes; times];
        for (turns, calls, expected) in [
            (vec![], CALLS_FIRST, 2_048),
            (times(10, 100), CALLS_MAX, CALLS_MAX * 100),
            (times(10, 100), 1, BYTES_MIN),
            (times(10, 100), 4, 408),
            // A large message is read in large parts, however small the budget in calls is.
            (times(10, 100_000), 1, BYTES_MAX),
            (times(10, 100_000), CALLS_MAX, BYTES_MAX),
            // A connection that sends both counts as one that sends small calls.
            ([times(10, 100_000), times(1, 100)].concat(), 1, BYTES_MIN),
            ([times(10, 100), times(3, 100_000)].concat(), 1, 1_024),
        ] {
            let call_bytes = turns.iter().fold(BYTES_MIN, |before, call_bytes| {
                let bytes = budget_bytes(calls, before);
                took(before, bytes, (bytes / call_bytes) as u64)
            });
            assert_eq!(budget_bytes(calls, call_bytes), expected, "{turns:?} {calls}");
        }
    }
}
