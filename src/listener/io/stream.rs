//! The byte stream of a connection: first the bytes that the handshake read, then those of the socket, within the poll budget.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::listener::fairness::poll_budget::PollBudget;
use crate::listener::io::tls_or_tcp::TlsOrTcp;
use crate::listener::io::write_buffer::WriteBuffer;

pub(in crate::listener) struct Stream {
    socket: WriteBuffer<TlsOrTcp>,
    read_before: BytesMut,
    budget: PollBudget,
}

impl Stream {
    pub(in crate::listener) fn new(
        socket: WriteBuffer<TlsOrTcp>,
        read_before: BytesMut,
        budget: PollBudget,
    ) -> Stream {
        Stream { socket, read_before, budget }
    }

    /// Reads from the socket, within the poll budget.
    fn poll_socket(&mut self, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = ready!(self.budget.poll_bytes_left(context));
        // Reads into memory that is not zeroed before: zeroing took a fiftieth of the server's time.
        let bytes = ready!(poll_read_buf(Pin::new(&mut self.socket), context, &mut to.limit(room)))?;
        self.budget.took(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read_before.is_empty() {
            return self.poll_socket(context, to);
        }
        let now = self.read_before.len().min(to.remaining());
        to.put_slice(&self.read_before[..now]);
        self.read_before.advance(now);
        if self.read_before.is_empty() {
            self.read_before = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
