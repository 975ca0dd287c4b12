//! Connections as they come in: bounded, so that no number of clients exhausts this process.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long to wait after the operating system had none to give: without that the loop would spin.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// A connection, counted for as long as it lives.
pub(super) struct Connection {
    stream: TcpStream,
    _counted: OwnedSemaphorePermit,
}

/// The connections of a listener, at most `max` of them at once; those beyond wait in the operating
/// system's own queue, which is bounded too.
pub(super) fn connections(listener: TcpListener, max: usize) -> impl Stream<Item = io::Result<Connection>> {
    let free = Arc::new(Semaphore::new(max));
    stream::unfold((listener, free), |(listener, free)| async move {
        if free.available_permits() == 0 {
            tracing::warn!("connections_max is reached: new connections wait until others end");
        }
        // The semaphore is never closed.
        let counted = Arc::clone(&free).acquire_owned().await.ok()?;
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    // Answers are small: none may wait for more.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "TCP_NODELAY was not set");
                    }
                    return Some((Ok(Connection { stream, _counted: counted }), (listener, free)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted: is the limit of open files too low?");
                    sleep(AFTER_ERROR).await;
                }
            }
        }
    })
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;
    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, to)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, from)
    }
}
