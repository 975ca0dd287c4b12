//! A connection's bytes: those that were read before HTTP/2 took over come first, and all are counted.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::listener::fairness::poll_budget::Turn;
use crate::listener::io::tls_or_tcp::Wire;
use crate::listener::io::write_buffer::Outbox;

pub(in crate::listener) struct Stream {
    wire: Outbox<Wire>,
    read_before: BytesMut,
    turn: Turn,
}

impl Stream {
    pub(in crate::listener) fn new(wire: Outbox<Wire>, read_before: BytesMut, turn: Turn) -> Stream {
        Stream { wire, read_before, turn }
    }

    /// Reads of the connection, as much as it may in this turn.
    fn poll_wire(&mut self, context: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = ready!(self.turn.poll_room(context));
        // What is read into is not set to zero before: that took a fiftieth of the server's time.
        let bytes = ready!(poll_read_buf(Pin::new(&mut self.wire), context, &mut to.limit(room)))?;
        self.turn.took(bytes);
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
            return self.poll_wire(context, to);
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
        Pin::new(&mut self.wire).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }
}
