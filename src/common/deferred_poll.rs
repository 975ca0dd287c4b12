//! A connection on which many calls are under way has its turn after everything else that was woken. What others have to
//! send by then goes in one packet, where it went in one packet each: writing a packet costs more than the call in it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// With more calls under way than these, a call that begins or ends is seldom alone. With fewer, the turn that is let go costs
/// more than packets, since it wakes another thread.
const FEW: usize = 8;

pin_project! {
    /// See the module.
    pub(crate) struct Gathering<C, U> {
        #[pin]
        connection: C,
        under_way: U,
        // Others go first, and it is woken already.
        lets: bool,
    }
}

impl<C, U: Fn() -> usize> Gathering<C, U> {
    /// `under_way` tells how many calls are.
    pub(crate) fn new(connection: C, under_way: U) -> Gathering<C, U> {
        Gathering { connection, under_way, lets: false }
    }

    pub(crate) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future, U: Fn() -> usize> Future for Gathering<C, U> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        *this.lets = !*this.lets && (this.under_way)() > FEW;
        if *this.lets {
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
    fn one_turn_is_let_go_while_much_is_under_way_and_never_two() {
        // How many calls are under way at each turn, and which of the turns the connection takes.
        for (under_way, takes) in [
            (&[0, 1, FEW][..], &[true, true, true][..]),
            (&[FEW + 1, FEW + 1, 256, 256], &[false, true, false, true]),
            (&[FEW, 256, 256, FEW, FEW], &[true, false, true, true, true]),
            // They have ended meanwhile.
            (&[256, 0, 0, 256], &[false, true, true, false]),
        ] {
            let (now, taken, woken) = (Cell::new(0), Cell::new(0), Arc::new(Woken::default()));
            let waker = Arc::clone(&woken).into();
            let connection = std::future::poll_fn(|_| {
                taken.set(taken.get() + 1);
                Poll::<()>::Pending
            });
            let mut gathering = std::pin::pin!(Gathering::new(connection, || now.get()));
            for (number, (under_way, takes)) in under_way.iter().zip(takes).enumerate() {
                let before = (taken.get(), woken.0.load(Ordering::Relaxed));
                now.set(*under_way);
                assert!(gathering.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                let took = (taken.get() - before.0, woken.0.load(Ordering::Relaxed) - before.1);
                // Whoever lets a turn go is woken for the next one.
                assert_eq!(took, if *takes { (1, 0) } else { (0, 1) }, "turn {number} of {under_way}");
            }
        }
    }
}
