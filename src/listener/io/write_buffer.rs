//! The write buffer: small writes of one poll of a connection are flushed at its end, in as few packets as possible; a write
//! that does not fit goes to the socket. Without it hyper writes the trailers of an answer of more than 256 bytes separately:
//! each side pays a packet and a wake-up, and a server killed between body and trailers leaves a call whose answer has begun,
//! which gRPC clients do not retry: the cause of all failed calls in three hundred kills (traced in grpcio).

use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::accounts::ConnectionAccount;

/// Maximum number of buffered bytes; a larger write is not copied.
const BUFFER_MAX: usize = 16 * 1_024;
/// A buffer with more capacity is freed after the flush: there may be many idle connections.
const KEPT_CAPACITY_MAX: usize = 1_024;

/// The buffered bytes and their socket. All clones are used by one task.
pub(in crate::listener) struct WriteBuffer<W>(Arc<Mutex<BufferState<W>>>);

impl<W> Clone for WriteBuffer<W> {
    fn clone(&self) -> WriteBuffer<W> {
        WriteBuffer(Arc::clone(&self.0))
    }
}

struct BufferState<W> {
    socket: W,
    buffered: Vec<u8>,
    /// How many of the buffered bytes are sent.
    sent: usize,
    /// Bytes of the last write, if the socket took none of them.
    refused: usize,
    account: Arc<ConnectionAccount>,
    /// Why nothing can be sent any more.
    failed: Option<io::ErrorKind>,
}

impl<W> WriteBuffer<W> {
    /// The account counts bytes that are sent, and bytes that are not.
    pub(in crate::listener) fn new(socket: W, account: Arc<ConnectionAccount>) -> WriteBuffer<W> {
        WriteBuffer(Arc::new(Mutex::new(BufferState {
            socket,
            buffered: Vec::new(),
            sent: 0,
            refused: 0,
            account,
            failed: None,
        })))
    }

    fn shared(&self) -> MutexGuard<'_, BufferState<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: AsyncWrite + Unpin> BufferState<W> {
    /// Sends all buffered bytes.
    fn poll_send_all(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.buffered.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let sent = ready!(Pin::new(&mut self.socket).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
            self.account.sent(sent);
        }
        self.sent = 0;
        self.buffered.clear();
        if self.buffered.capacity() > KEPT_CAPACITY_MAX {
            self.buffered = Vec::new();
        }
        Pin::new(&mut self.socket).poll_flush(context)
    }

    /// Flushes at the end of a poll. An error is reported to the next write, and the next poll follows immediately. `headers`:
    /// bytes of headers that HTTP/2 had been given when the poll began.
    fn flush_after_poll(&mut self, headers: usize, context: &mut Context<'_>) {
        if self.failed.is_some() {
            return;
        }
        // TLS has a separate buffer, which may be unsent too.
        let (mut unsent, sent) = (self.refused, self.poll_send_all(context));
        if sent.is_pending() {
            unsent += (self.buffered.len() - self.sent).max(1);
        }
        self.account.set_unsent(unsent);
        if unsent == 0 {
            self.account.headers_sent(headers);
            // Headers that HTTP/2 was given during this poll may be sent too: the next poll finds out.
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

impl<W: AsyncRead + Unpin> AsyncRead for WriteBuffer<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.shared().socket).poll_read(context, to)
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WriteBuffer<W> {
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
        if shared.buffered.len() + bytes <= BUFFER_MAX {
            for part in from {
                shared.buffered.extend_from_slice(part);
            }
            return Poll::Ready(Ok(bytes));
        }
        // Until the socket takes them.
        shared.refused = bytes;
        ready!(shared.poll_send_all(context))?;
        let sent = ready!(Pin::new(&mut shared.socket).poll_write_vectored(context, from))?;
        shared.refused = 0;
        shared.account.sent(sent);
        Poll::Ready(Ok(sent))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Does nothing: the bytes are sent at the end of the poll.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared().can_write())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut shared = self.shared();
        shared.can_write()?;
        ready!(shared.poll_send_all(context))?;
        Pin::new(&mut shared.socket).poll_shutdown(context)
    }
}

pin_project! {
    /// A connection whose write buffer is flushed after each poll.
    pub(in crate::listener) struct FlushedConnection<C, W> {
        #[pin]
        connection: C,
        buffer: WriteBuffer<W>,
    }
}

impl<C, W> FlushedConnection<C, W> {
    pub(in crate::listener) fn new(connection: C, buffer: WriteBuffer<W>) -> FlushedConnection<C, W> {
        FlushedConnection { connection, buffer }
    }

    pub(in crate::listener) fn connection(self: Pin<&mut Self>) -> Pin<&mut C> {
        self.project().connection
    }
}

impl<C: Future, W: AsyncWrite + Unpin> Future for FlushedConnection<C, W> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.project();
        let headers = this.buffer.shared().account.header_bytes();
        let polled = this.connection.poll(context);
        this.buffer.shared().flush_after_poll(headers, context);
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

    /// Takes this many bytes of each write in turn (`None`: not now), and everything after these.
    #[derive(Default)]
    struct FakeSocket {
        takes: VecDeque<Option<usize>>,
        fails: bool,
        writes: Vec<Vec<u8>>,
        ended: bool,
    }

    impl AsyncWrite for FakeSocket {
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

    fn buffer(takes: &[Option<usize>]) -> WriteBuffer<FakeSocket> {
        let socket = FakeSocket { takes: takes.iter().copied().collect(), ..FakeSocket::default() };
        WriteBuffer::new(socket, for_tests::connection())
    }

    /// Writes the parts in one poll, with a flush after each: how many bytes were taken of each part, or the error.
    fn poll_once(
        buffer: &WriteBuffer<FakeSocket>,
        parts: &[usize],
    ) -> Vec<Poll<Result<usize, io::ErrorKind>>> {
        let mut context = Context::from_waker(Waker::noop());
        let writes = std::future::poll_fn(|context| {
            let mut results = Vec::new();
            for (part, byte) in parts.iter().zip(b'a'..) {
                let mut buffer = buffer.clone();
                let wrote = Pin::new(&mut buffer).poll_write(context, &vec![byte; *part]);
                let _flushed = Pin::new(&mut buffer).poll_flush(context);
                results.push(wrote.map_err(|error| error.kind()));
            }
            Poll::Ready(results)
        });
        match std::pin::pin!(FlushedConnection::new(writes, buffer.clone())).poll(&mut context) {
            Poll::Ready(results) => results,
            Poll::Pending => unreachable!("it waits for nothing"),
        }
    }

    /// The number of bytes of each write to the socket, and all bytes.
    fn written(buffer: &WriteBuffer<FakeSocket>) -> (Vec<usize>, String) {
        let writes = &buffer.shared().socket.writes;
        (writes.iter().map(Vec::len).collect(), String::from_utf8(writes.concat()).expect("letters"))
    }

    #[test]
    fn one_poll_is_sent_in_one_write() {
        const ALL: usize = BUFFER_MAX;
        // The parts, what the socket takes, and the writes that it sees.
        for (parts, takes, writes) in [
            (&[9, 300, 40][..], &[][..], &[349][..]),
            (&[], &[], &[]),
            // No byte is lost where the socket takes fewer.
            (&[9, 300], &[Some(10), Some(100)], &[10, 100, 199]),
            // Large writes are not copied; buffered bytes are sent first.
            (&[ALL, 1], &[], &[ALL, 1]),
            (&[9, ALL, 9], &[], &[9, ALL, 9]),
            (&[2 * ALL], &[], &[2 * ALL]),
        ] {
            let buffer = buffer(takes);
            let took: usize = parts.iter().sum();
            assert!(
                poll_once(&buffer, parts)
                    .iter()
                    .zip(parts)
                    .all(|(results, part)| *results == Poll::Ready(Ok(*part)))
            );
            let letters: String =
                parts.iter().zip('a'..).map(|(part, letter)| letter.to_string().repeat(*part)).collect();
            assert_eq!(written(&buffer), (writes.to_vec(), letters), "{parts:?}");
            let shared = buffer.shared();
            assert_eq!((shared.account.moved_bytes(), shared.buffered.len()), (took as u64, 0));
            assert!(
                shared.buffered.capacity() <= KEPT_CAPACITY_MAX,
                "{parts:?}: an idle connection keeps little"
            );
        }
    }

    #[test]
    fn bytes_are_unsent_until_the_socket_takes_them() {
        const ALL: usize = BUFFER_MAX;
        let wrote = |takes: &[Option<usize>], polls: &[&[usize]]| {
            let buffer = buffer(takes);
            let mut unsent = Vec::new();
            for parts in polls {
                poll_once(&buffer, parts);
                unsent.push(buffer.shared().account.unsent());
            }
            unsent
        };
        for (what, takes, polls, unsent) in [
            ("all is sent", &[][..], &[&[9][..]][..], &[0][..]),
            ("it is buffered", &[None, None], &[&[9], &[], &[]], &[9, 9, 0]),
            // Too large for the buffer: the writer keeps it, and tries again.
            ("the writer waits", &[None], &[&[ALL + 1], &[ALL + 1]], &[ALL + 1, 0]),
            ("and again with less", &[None], &[&[ALL + 1], &[9]], &[ALL + 1, 0]),
        ] {
            assert_eq!(wrote(takes, polls), unsent, "{what}");
        }
    }

    #[test]
    fn headers_count_until_the_socket_has_taken_all() {
        let buffer = buffer(&[None, None]);
        let account = Arc::clone(&buffer.shared().account);
        account.sends_headers(70);
        let mut left = Vec::new();
        for parts in [&[9][..], &[], &[]] {
            poll_once(&buffer, parts);
            left.push(account.header_bytes());
        }
        assert_eq!(left, [70, 70, 0]);
        let late = std::future::poll_fn(|_| {
            account.sends_headers(5);
            Poll::Ready(())
        });
        let sent = std::pin::pin!(FlushedConnection::new(late, buffer.clone()))
            .poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!((sent, account.header_bytes()), (Poll::Ready(()), 5), "HTTP/2 has not written it yet");
    }

    #[test]
    fn a_client_that_reads_nothing_is_bounded_by_the_buffer() {
        let buffer = buffer(&[None, None, None]);
        let parts = [BUFFER_MAX - 1, 1, 1];
        let full = Poll::Ready(Ok(BUFFER_MAX - 1));
        assert_eq!(poll_once(&buffer, &parts), [full, Poll::Ready(Ok(1)), Poll::Pending]);
        assert_eq!(buffer.shared().account.moved_bytes(), 0, "nothing has moved");
        // It reads: buffered bytes are sent, though nothing new is written.
        assert_eq!((poll_once(&buffer, &[]), written(&buffer).0), (vec![], vec![]));
        assert_eq!((poll_once(&buffer, &[]), written(&buffer).0), (vec![], vec![BUFFER_MAX]));
    }

    #[test]
    fn an_error_is_reported_to_the_next_write() {
        let buffer = buffer(&[]);
        buffer.shared().socket.fails = true;
        assert_eq!(poll_once(&buffer, &[1]), [Poll::Ready(Ok(1))]);
        assert_eq!(poll_once(&buffer, &[1]), [Poll::Ready(Err(io::ErrorKind::ConnectionReset))]);
    }

    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Woken>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_connection_that_cannot_send_is_polled_again_immediately() {
        for fails in [false, true] {
            let buffer = buffer(&[]);
            buffer.shared().socket.fails = fails;
            let woken = Arc::new(Woken(AtomicBool::new(false)));
            let waker = Waker::from(Arc::clone(&woken));
            let mut to = buffer.clone();
            let writes = std::future::poll_fn(|context| Pin::new(&mut to).poll_write(context, b"a"));
            let mut sends = std::pin::pin!(FlushedConnection::new(writes, buffer.clone()));
            assert!(sends.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            assert_eq!(woken.0.load(Ordering::Relaxed), fails);
        }
    }

    #[test]
    fn shutdown_sends_the_buffer_first() {
        let buffer = buffer(&[]);
        let mut context = Context::from_waker(Waker::noop());
        let mut writer = buffer.clone();
        assert!(Pin::new(&mut writer).poll_write(&mut context, b"goodbye").is_ready());
        assert!(Pin::new(&mut writer).poll_shutdown(&mut context).is_ready());
        assert_eq!((written(&buffer).1.as_str(), buffer.shared().socket.ended), ("goodbye", true));
    }
}
