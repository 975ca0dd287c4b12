//! What a connection writes is sent at the end of its turn, in as few packets as can be. HTTP/2 would send the end of an
//! answer by itself where the answer has more than 256 bytes: it costs each side more, and a server that is killed between
//! the two leaves a call that has begun to be answered, which no client of gRPC repeats by itself.

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::accounts::ConnectionAccount;

/// So many bytes wait at the most; what is larger is not copied.
const WAIT_MOST: usize = 16 * 1_024;
/// A buffer that is larger is not kept for the next turn: there may be many idle connections.
const KEPT_MOST: usize = 1_024;

/// The bytes that wait, and where they go. One task has all of its clones.
pub(in crate::listener) struct Outbox<W>(Arc<Mutex<Shared<W>>>);

impl<W> Clone for Outbox<W> {
    fn clone(&self) -> Outbox<W> {
        Outbox(Arc::clone(&self.0))
    }
}

struct Shared<W> {
    wire: W,
    waits: Vec<u8>,
    /// How many of these are sent.
    sent: usize,
    /// The bytes of the last write, if the wire took none of them.
    refused: usize,
    account: Arc<ConnectionAccount>,
    /// Why nothing can be sent any more.
    failed: Option<io::ErrorKind>,
}

impl<W> Outbox<W> {
    /// The account counts what is sent, and what is not.
    pub(in crate::listener) fn new(wire: W, account: Arc<ConnectionAccount>) -> Outbox<W> {
        Outbox(Arc::new(Mutex::new(Shared {
            wire,
            waits: Vec::new(),
            sent: 0,
            refused: 0,
            account,
            failed: None,
        })))
    }

    fn shared(&self) -> MutexGuard<'_, Shared<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: AsyncWrite + Unpin> Shared<W> {
    /// Sends all that waits.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.waits.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let sent = ready!(Pin::new(&mut self.wire).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
            self.account.sent(sent);
        }
        self.sent = 0;
        self.waits.clear();
        if self.waits.capacity() > KEPT_MOST {
            self.waits = Vec::new();
        }
        Pin::new(&mut self.wire).poll_flush(context)
    }

    /// An error at the end of a turn is reported to the next write, and the next turn comes immediately. `headers`:
    /// how many bytes of them HTTP/2 had been given when the turn began.
    fn end_of_turn(&mut self, headers: usize, context: &mut Context<'_>) {
        if self.failed.is_some() {
            return;
        }
        // TLS has a buffer of its own, which it has not sent either.
        let (mut unsent, sent) = (self.refused, self.poll_send(context));
        if sent.is_pending() {
            unsent += (self.waits.len() - self.sent).max(1);
        }
        self.account.set_unsent(unsent);
        if unsent == 0 {
            self.account.headers_sent(headers);
            // Headers that came during this turn may be sent, too: the next turn finds that out.
            if self.account.header_bytes() > 0 {
                context.waker().wake_by_ref();
            }
        }
        if let Poll::Ready(Err(error)) = sent {
            self.failed = Some(error.kind());
            context.waker().wake_by_ref();
        }
    }

    fn can_write(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl<W: AsyncRead + Unpin> AsyncRead for Outbox<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.shared().wire).poll_read(context, to)
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for Outbox<W> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut shared = self.shared();
        shared.can_write()?;
        shared.refused = 0;
        let bytes: usize = from.iter().map(|part| part.len()).sum();
        if shared.waits.len() + bytes <= WAIT_MOST {
            for part in from {
                shared.waits.extend_from_slice(part);
            }
            return Poll::Ready(Ok(bytes));
        }
        // Until it is taken.
        shared.refused = bytes;
        ready!(shared.poll_send(context))?;
        let sent = ready!(Pin::new(&mut shared.wire).poll_write_vectored(context, from))?;
        shared.refused = 0;
        shared.account.sent(sent);
        Poll::Ready(Ok(sent))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Nothing is sent before the end of the turn, which is near.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared().can_write())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared();
        shared.can_write()?;
        ready!(shared.poll_send(context))?;
        Pin::new(&mut shared.wire).poll_shutdown(context)
    }
}

pin_project! {
    /// A connection whose turn ends each time that it was polled.
    pub(in crate::listener) struct Sends<C, W> {
        #[pin]
        connection: C,
        outbox: Outbox<W>,
    }
}

impl<C, W> Sends<C, W> {
    pub(in crate::listener) fn new(connection: C, outbox: Outbox<W>) -> Sends<C, W> {
        Sends { connection, outbox }
    }

    pub(in crate::listener) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future, W: AsyncWrite + Unpin> Future for Sends<C, W> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        let headers = this.outbox.shared().account.header_bytes();
        let polled = this.connection.poll(context);
        this.outbox.shared().end_of_turn(headers, context);
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::{Wake, Waker};

    use super::*;
    use crate::accounts::for_tests;

    /// Takes so many bytes of each write, one after the other, and as many as there are after these; none: not now.
    #[derive(Default)]
    struct Wire {
        takes: VecDeque<Option<usize>>,
        fails: bool,
        writes: Vec<Vec<u8>>,
        ended: bool,
    }

    impl AsyncWrite for Wire {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
            if self.fails {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            let Some(most) = self.takes.pop_front().unwrap_or(Some(usize::MAX)) else {
                return Poll::Pending;
            };
            let taken = &from[..from.len().min(most)];
            self.writes.push(taken.to_vec());
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.ended = true;
            Poll::Ready(Ok(()))
        }
    }

    fn outbox(takes: &[Option<usize>]) -> Outbox<Wire> {
        let wire = Wire { takes: takes.iter().copied().collect(), ..Wire::default() };
        Outbox::new(wire, for_tests::connection())
    }

    /// What a turn writes: how many bytes were taken of each part, or why not. It flushes after each.
    fn turn(outbox: &Outbox<Wire>, parts: &[usize]) -> Vec<Poll<Result<usize, io::ErrorKind>>> {
        let mut context = Context::from_waker(Waker::noop());
        let writes = std::future::poll_fn(|context| {
            let mut told = Vec::new();
            for (part, byte) in parts.iter().zip(b'a'..) {
                let mut outbox = outbox.clone();
                let wrote = Pin::new(&mut outbox).poll_write(context, &vec![byte; *part]);
                let _flushed = Pin::new(&mut outbox).poll_flush(context);
                told.push(wrote.map_err(|error| error.kind()));
            }
            Poll::Ready(told)
        });
        match std::pin::pin!(Sends::new(writes, outbox.clone())).poll(&mut context) {
            Poll::Ready(told) => told,
            Poll::Pending => unreachable!("it waits for nothing"),
        }
    }

    /// How many bytes each write to the wire had, and all of them.
    fn written(outbox: &Outbox<Wire>) -> (Vec<usize>, String) {
        let writes = &outbox.shared().wire.writes;
        (writes.iter().map(Vec::len).collect(), String::from_utf8(writes.concat()).expect("letters"))
    }

    #[test]
    fn what_a_turn_writes_is_sent_at_its_end_at_once() {
        const ALL: usize = WAIT_MOST;
        // The parts, what the wire takes, and the writes that it sees.
        for (parts, takes, writes) in [
            (&[9, 300, 40][..], &[][..], &[349][..]),
            (&[], &[], &[]),
            // Nothing is lost where the wire takes less.
            (&[9, 300], &[Some(10), Some(100)], &[10, 100, 199]),
            // Large ones are not copied; what waits comes first.
            (&[ALL, 1], &[], &[ALL, 1]),
            (&[9, ALL, 9], &[], &[9, ALL, 9]),
            (&[2 * ALL], &[], &[2 * ALL]),
        ] {
            let outbox = outbox(takes);
            let took: usize = parts.iter().sum();
            assert!(
                turn(&outbox, parts).iter().zip(parts).all(|(told, part)| *told == Poll::Ready(Ok(*part)))
            );
            let letters: String =
                parts.iter().zip('a'..).map(|(part, letter)| letter.to_string().repeat(*part)).collect();
            assert_eq!(written(&outbox), (writes.to_vec(), letters), "{parts:?}");
            let shared = outbox.shared();
            assert_eq!((shared.account.moved_bytes(), shared.waits.len()), (took as u64, 0));
            assert!(shared.waits.capacity() <= KEPT_MOST, "{parts:?}: an idle connection keeps little");
        }
    }

    #[test]
    fn what_the_wire_did_not_take_is_unsent_until_it_takes_it() {
        const ALL: usize = WAIT_MOST;
        let wrote = |takes: &[Option<usize>], turns: &[&[usize]]| {
            let outbox = outbox(takes);
            let mut unsent = Vec::new();
            for parts in turns {
                turn(&outbox, parts);
                unsent.push(outbox.shared().account.unsent());
            }
            unsent
        };
        for (what, takes, turns, unsent) in [
            ("all is sent", &[][..], &[&[9][..]][..], &[0][..]),
            ("it waits", &[None, None], &[&[9], &[], &[]], &[9, 9, 0]),
            // Too large to wait: the writer has it, and tries again.
            ("the writer waits", &[None], &[&[ALL + 1], &[ALL + 1]], &[ALL + 1, 0]),
            ("and again with less", &[None], &[&[ALL + 1], &[9]], &[ALL + 1, 0]),
        ] {
            assert_eq!(wrote(takes, turns), unsent, "{what}");
        }
    }

    #[test]
    fn headers_count_until_the_wire_has_taken_all() {
        let outbox = outbox(&[None, None]);
        let account = Arc::clone(&outbox.shared().account);
        account.sends_headers(70);
        let mut left = Vec::new();
        for parts in [&[9][..], &[], &[]] {
            turn(&outbox, parts);
            left.push(account.header_bytes());
        }
        assert_eq!(left, [70, 70, 0]);
        let late = std::future::poll_fn(|_| {
            account.sends_headers(5);
            Poll::Ready(())
        });
        let sent =
            std::pin::pin!(Sends::new(late, outbox.clone())).poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!((sent, account.header_bytes()), (Poll::Ready(()), 5), "HTTP/2 has not written it yet");
    }

    #[test]
    fn whoever_reads_nothing_is_written_no_more_than_may_wait() {
        let outbox = outbox(&[None, None, None]);
        let parts = [WAIT_MOST - 1, 1, 1];
        let full = Poll::Ready(Ok(WAIT_MOST - 1));
        assert_eq!(turn(&outbox, &parts), [full, Poll::Ready(Ok(1)), Poll::Pending]);
        assert_eq!(outbox.shared().account.moved_bytes(), 0, "nothing has moved");
        // It reads: what waits is sent, though nothing new is written.
        assert_eq!((turn(&outbox, &[]), written(&outbox).0), (vec![], vec![]));
        assert_eq!((turn(&outbox, &[]), written(&outbox).0), (vec![], vec![WAIT_MOST]));
    }

    #[test]
    fn whoever_writes_next_is_told_that_nothing_can_be_sent() {
        let outbox = outbox(&[]);
        outbox.shared().wire.fails = true;
        assert_eq!(turn(&outbox, &[1]), [Poll::Ready(Ok(1))]);
        assert_eq!(turn(&outbox, &[1]), [Poll::Ready(Err(io::ErrorKind::ConnectionReset))]);
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_connection_that_cannot_send_is_polled_again_at_once() {
        for fails in [false, true] {
            let outbox = outbox(&[]);
            outbox.shared().wire.fails = fails;
            let woken = Arc::new(Woken(AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&woken));
            let mut to = outbox.clone();
            let writes = std::future::poll_fn(|context| Pin::new(&mut to).poll_write(context, b"a"));
            let mut sends = std::pin::pin!(Sends::new(writes, outbox.clone()));
            assert!(sends.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            assert_eq!(woken.0.load(Ordering::Relaxed), fails);
        }
    }

    #[test]
    fn what_waits_is_sent_before_the_end() {
        let outbox = outbox(&[]);
        let mut context = Context::from_waker(Waker::noop());
        let mut writer = outbox.clone();
        assert!(Pin::new(&mut writer).poll_write(&mut context, b"goodbye").is_ready());
        assert!(Pin::new(&mut writer).poll_shutdown(&mut context).is_ready());
        assert_eq!((written(&outbox).1.as_str(), outbox.shared().wire.ended), ("goodbye", true));
    }
}
