//! The life of one connection: it begins within its time, carries calls, and ends when the server drains.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use super::calls::{Calls, Open};
use super::opening::Opened;
use super::stream::{Moved, Stream};
use super::until;
use crate::identity::Peer;

/// Within which time a client must have ended the handshake of TLS, where there is one, and sent the whole preface of
/// HTTP/2.
const OPENED_WITHIN: Duration = Duration::from_secs(5);
/// When the server drains: a connection without a call, on which nothing moved for this long, is closed.
/// A client that is there has told by then that it knows of the end, and its connection is closed already.
const QUIET: Duration = Duration::from_millis(500);

/// Serves a connection until it ends, or until `closing` and the end of its calls.
pub(super) async fn serve<S>(
    opening: impl Future<Output = io::Result<Opened>>,
    service_of: impl FnOnce(Peer) -> S,
    http2: http2::Builder<TokioExecutor>,
    closing: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send + 'static,
{
    let Opened { wire, peer, read_before } = match until(&closing, timeout(OPENED_WITHIN, opening)).await {
        Some(Ok(Ok(opened))) => opened,
        Some(Ok(Err(error))) => return tracing::debug!(%error, "a connection ended before its preface"),
        Some(Err(_)) => {
            return tracing::debug!(within = ?OPENED_WITHIN, "a connection did not finish its preface: closed");
        }
        None => return,
    };
    let (open, moved) = (Open::default(), Moved::default());
    let stream = TokioIo::new(Stream::new(wire, read_before, moved.clone()));
    let calls = Calls::new(service_of(peer), open.clone());
    let mut serving = pin!(http2.serve_connection(stream, calls));
    if let Some(ended) = until(&closing, serving.as_mut()).await {
        return log(ended);
    }
    serving.as_mut().graceful_shutdown();
    loop {
        let before = moved.bytes();
        match timeout(QUIET, serving.as_mut()).await {
            Ok(ended) => return log(ended),
            Err(_) if open.is_none() && moved.bytes() == before => {
                return tracing::debug!("a connection without a call stayed silent: closed");
            }
            Err(_) => {}
        }
    }
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}
