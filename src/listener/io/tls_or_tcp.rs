//! The bytes of a connection, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// An enum, so that a read needs no dynamic dispatch.
pub(in crate::listener) enum TlsOrTcp {
    Plain(TcpStream),
    /// Boxed, since the TLS session's state is large.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Applies the same call to both.
macro_rules! either {
    ($socket:expr, $stream:ident => $done:expr) => {
        match $socket {
            TlsOrTcp::Plain($stream) => $done,
            TlsOrTcp::Tls($stream) => $done,
        }
    };
}

impl AsyncRead for TlsOrTcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(&mut *self, stream => Pin::new(stream).poll_read(context, to))
    }
}

impl AsyncWrite for TlsOrTcp {
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
