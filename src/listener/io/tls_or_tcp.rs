//! The bytes of a connection, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Named, so that a read costs no look-up of what to call.
pub(in crate::listener) enum Wire {
    Plain(TcpStream),
    /// Large: most of it is the state of a session.
    Tls(Box<TlsStream<TcpStream>>),
}

/// The same of both.
macro_rules! either {
    ($wire:expr, $stream:ident => $done:expr) => {
        match $wire {
            Wire::Plain($stream) => $done,
            Wire::Tls($stream) => $done,
        }
    };
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(&mut *self, stream => Pin::new(stream).poll_read(context, to))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(&mut *self, stream => Pin::new(stream).poll_write(context, from))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(&mut *self, stream => Pin::new(stream).poll_write_vectored(context, from))
    }

    fn is_write_vectored(&self) -> bool {
        either!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut *self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut *self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
