//! Deferred poll: the task of a connection with many calls in flight yields once before it is polled, to be polled after
//! everything else that was woken. The answers that are ready by then go in one packet, instead of one packet each: writing a
//! packet costs more than the call in it. Measured: 13,300 writes for 60,000 answers instead of 54,400; claims on Postgres
//! 31,600 to 37,600 a second with 64 in flight, and 50,800 to 56,500 with 256 (medians of two interleaved runs).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// With more calls in flight, a call that begins or ends is seldom alone. With fewer, the deferred poll costs more than
/// packets, since it wakes another thread.
const DEFER_ABOVE: usize = 8;

pin_project! {
    /// See the module.
    pub(crate) struct DeferredPoll<C, U> {
        #[pin]
        connection: C,
        in_flight: U,
        // The poll was deferred, and the task is woken already.
        deferred: bool,
    }
}

impl<C, U: Fn() -> usize> DeferredPoll<C, U> {
    /// `in_flight` returns the number of calls in flight.
    pub(crate) fn new(connection: C, in_flight: U) -> DeferredPoll<C, U> {
        DeferredPoll { connection, in_flight, deferred: false }
    }

    pub(crate) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future, U: Fn() -> usize> Future for DeferredPoll<C, U> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        *this.deferred = !*this.deferred && (this.in_flight)() > DEFER_ABOVE;
        if *this.deferred {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.connection.poll(context)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn one_poll_is_deferred_while_many_calls_are_in_flight_and_never_two() {
        // Number of calls in flight at each poll, and which polls reach the connection.
        for (in_flight, takes) in [
            (&[0, 1, DEFER_ABOVE][..], &[true, true, true][..]),
            (&[DEFER_ABOVE + 1, DEFER_ABOVE + 1, 256, 256], &[false, true, false, true]),
            (&[DEFER_ABOVE, 256, 256, DEFER_ABOVE, DEFER_ABOVE], &[true, false, true, true, true]),
            // The calls have ended meanwhile.
            (&[256, 0, 0, 256], &[false, true, true, false]),
        ] {
            let (now, taken, woken) = (Cell::new(0), Cell::new(0), Arc::new(Woken::default()));
            let waker = Arc::clone(&woken).into();
            let connection = std::future::poll_fn(|_| {
                taken.set(taken.get() + 1);
                Poll::<()>::Pending
            });
            let mut deferred = std::pin::pin!(DeferredPoll::new(connection, || now.get()));
            for (number, (in_flight, takes)) in in_flight.iter().zip(takes).enumerate() {
                let before = (taken.get(), woken.0.load(Ordering::Relaxed));
                now.set(*in_flight);
                assert!(deferred.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let took = (taken.get() - before.0, woken.0.load(Ordering::Relaxed) - before.1);
                // A deferred poll has woken the task for the next one.
                assert_eq!(took, if *takes { (1, 0) } else { (0, 1) }, "turn {number} of {in_flight}");
            }
        }
    }
}
