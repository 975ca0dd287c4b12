//! Whatever the socket takes of each write, and whenever it takes nothing, it gets the same bytes in the same order.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;

use super::write_buffer::{FlushedConnection, WriteBuffer};
use crate::accounts::for_tests;

const RUNS: u64 = 800;
/// Sizes of writes and of what a socket takes: small ones, and those around the size of the buffer.
const SIZES: [usize; 9] = [1, 2, 9, 300, 4_095, 16_383, 16_384, 16_385, 40_000];

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % sides as u64).expect("below a usize")
    }

    fn size(&mut self) -> usize {
        let most = SIZES[self.roll(SIZES.len())];
        if self.roll(2) == 0 { most } else { 1 + self.roll(most) }
    }
}

/// A socket that takes as many bytes as its dice say, of one slice or of several, or none for now.
struct Wire {
    dice: Dice,
    got: Arc<Mutex<Vec<u8>>>,
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.dice.roll(4) == 0 {
            return Poll::Pending;
        }
        let (most, mut taken) = (self.dice.size(), 0);
        let mut got = self.got.lock().expect("no panic");
        for part in from {
            let some = part.len().min(most - taken);
            got.extend_from_slice(&part[..some]);
            taken += some;
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.dice.roll(8) == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
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
                return Poll::Pending;
            }
            let mut slices = Vec::new();
            let mut at = this.written;
            for _ in 0..=this.dice.roll(3) {
                let end = (at + this.dice.size()).min(this.bytes.len());
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
    let mut context = Context::from_waker(Waker::noop());
    for run in 0..RUNS {
        let mut dice = Dice(run << 32);
        let length = (0..=dice.roll(6)).map(|_| dice.size()).sum();
        let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(dice.roll(256)).expect("a byte")).collect();
        let got = Arc::<Mutex<Vec<u8>>>::default();
        let account = for_tests::connection();
        let wire = Wire { dice: Dice(!run), got: Arc::clone(&got) };
        let buffer = WriteBuffer::new(wire, Arc::clone(&account));
        let connection = Connection { dice, to: buffer.clone(), bytes: bytes.clone(), written: 0 };
        let mut sends = pin!(FlushedConnection::new(connection, buffer));
        let polls = (0..100_000).take_while(|_| sends.as_mut().poll(&mut context).is_pending()).count();
        assert!(polls < 100_000, "run {run} does not end");
        assert!(*got.lock().expect("no panic") == bytes, "run {run}: {length} bytes, and others arrived");
        assert_eq!(account.moved_bytes(), length as u64, "run {run}");
    }
}
