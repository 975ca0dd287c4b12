//! Whatever the socket takes of each write, and whenever it takes nothing, it gets the same bytes in the same order; and a
//! connection that waits is polled again only where it is woken.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tokio::io::AsyncWrite;

use super::write_buffer::{FlushedConnection, WriteBuffer};
use crate::accounts::for_tests;
use crate::common::dice::Dice;

const RUNS: u64 = 800;
/// Sizes of writes and of what a socket takes: small ones, and those around the size of the buffer.
const SIZES: [usize; 9] = [1, 2, 9, 300, 4_095, 16_383, 16_384, 16_385, 40_000];

fn size(dice: &mut Dice) -> usize {
    let most = SIZES[dice.roll(SIZES.len())];
    if dice.roll(2) == 0 { most } else { 1 + dice.roll(most) }
}

/// Whether the task of the connection was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A socket that takes as many bytes as its dice say, of one slice or of several, or none for now.
struct Wire {
    dice: Dice,
    got: Arc<Mutex<Vec<u8>>>,
    /// The waker of the task that waits for the socket.
    waits: Arc<Mutex<Option<Waker>>>,
}

impl Wire {
    fn takes_nothing<T>(&self, context: &Context<'_>) -> Poll<T> {
        *self.waits.lock().expect("no panic") = Some(context.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.dice.roll(4) == 0 {
            return self.takes_nothing(context);
        }
        // As a socket that becomes ready: an old waker must not hide that a later wait registers no waker.
        if let Some(waker) = self.waits.lock().expect("no panic").take() {
            waker.wake();
        }
        let (most, mut taken) = (size(&mut self.dice), 0);
        let mut got = self.got.lock().expect("no panic");
        for part in from {
            let some = part.len().min(most - taken);
            got.extend_from_slice(&part[..some]);
            taken += some;
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.dice.roll(8) == 0 { self.takes_nothing(context) } else { Poll::Ready(Ok(())) }
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection of HTTP/2 as far as writes go: it writes in parts, as many in a poll as it likes, flushes now and then, goes on where a
/// write was cut, and at last shuts down.
struct Connection {
    dice: Dice,
    to: WriteBuffer<Wire>,
    bytes: Vec<u8>,
    written: usize,
}

impl Future for Connection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        while this.written < this.bytes.len() {
            if this.dice.roll(6) == 0 {
                // Another event wakes the task.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let mut slices = Vec::new();
            let mut at = this.written;
            for _ in 0..=this.dice.roll(3) {
                let end = (at + size(&mut this.dice)).min(this.bytes.len());
                slices.push(IoSlice::new(&this.bytes[at..end]));
                at = end;
            }
            match Pin::new(&mut this.to).poll_write_vectored(context, &slices) {
                Poll::Ready(wrote) => this.written += wrote.expect("the wire does not fail"),
                Poll::Pending => return Poll::Pending,
            }
            if this.dice.roll(3) == 0 && Pin::new(&mut this.to).poll_flush(context).is_pending() {
                return Poll::Pending;
            }
        }
        Pin::new(&mut this.to).poll_shutdown(context).map(|ended| ended.expect("the wire does not fail"))
    }
}

#[test]
fn each_split_of_the_writes_gives_the_same_bytes() {
    for run in 0..RUNS {
        let mut dice = Dice(run << 32);
        let length = (0..=dice.roll(6)).map(|_| size(&mut dice)).sum();
        let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(dice.roll(256)).expect("a byte")).collect();
        let (got, waits) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::<Mutex<Option<Waker>>>::default());
        let account = for_tests::connection();
        let wire = Wire { dice: Dice(!run), got: Arc::clone(&got), waits: Arc::clone(&waits) };
        let buffer = WriteBuffer::new(wire, Arc::clone(&account));
        let connection = Connection { dice, to: buffer.clone(), bytes: bytes.clone(), written: 0 };
        let mut sends = pin!(FlushedConnection::new(connection, buffer));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut polls = 0;
        while sends.as_mut().poll(&mut context).is_pending() {
            polls += 1;
            assert!(polls < 100_000, "run {run} does not end");
            if !woken.0.swap(false, Ordering::SeqCst) {
                let waits = waits.lock().expect("no panic").take();
                waits.unwrap_or_else(|| panic!("run {run}: nothing wakes the connection")).wake();
                assert!(woken.0.swap(false, Ordering::SeqCst), "run {run}: the socket wakes another task");
            }
        }
        assert!(*got.lock().expect("no panic") == bytes, "run {run}: {length} bytes, and others arrived");
        assert_eq!(account.moved_bytes(), length as u64, "run {run}");
    }
}
