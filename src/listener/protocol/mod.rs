//! What is spoken on a connection: HTTP/2, or on the HTTP door HTTP/1.1, one call at a time.

pub(super) mod http1_heads;
pub(super) mod service;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tower::Service;

use crate::accounts::{Answer, CallTasks, STREAM_WINDOW, STREAMS_MAX};
use crate::listener::fairness::poll_budget::BYTES_MOST;
use crate::listener::io::stream::Stream;
use crate::listener::protocol::http1_heads::{HEAD_BYTES_MAX, Heads, Refusal};
use crate::listener::protocol::service::Calls;

/// Streams that their clients reset before this server has looked at them, at most; with more the connection is ended. It is
/// the number of those that wait, and does not grow with time: a call and its reset have 23 bytes at least, and one turn
/// brings fewer than this.
const PENDING_RESETS_MAX: usize = BYTES_MOST / 16;
/// What a client may send on a connection before this server has looked at it. The h2 crate derives a second
/// bound from it: each message below 256 bytes that waits costs what it lacks to 256, and all together may cost
/// half of this window. 2 MiB leave room for 4,096 messages, several times those of a turn.
const CONNECTION_WINDOW: u32 = 2 << 20;
/// Streams that this server resets because of what the client sent, at most, over the life of a connection.
const LOCAL_RESETS_MAX: usize = 1_024;
/// The largest headers that are read: the call's own bound is lower, and is answered with a status. A call with larger ones
/// is answered by HTTP/2 itself, and with more than that its connection ends, the calls of its neighbours with it.
const HEADER_BYTES_READ: u32 = 64 * 1_024;

pin_project! {
    /// See the module.
    #[project = Projected]
    pub(in crate::listener) enum Spoken<S>
    where
        S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible>,
        S::Future: Send,
        S::Future: 'static,
    {
        Http1 { #[pin] connection: http1::Connection<TokioIo<Heads<Stream>>, Calls<S>> },
        Http2 { #[pin] connection: http2::Connection<TokioIo<Stream>, Calls<S>, CallTasks> },
    }
}

impl<S> Spoken<S>
where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible>,
    S::Future: Send + 'static,
{
    pub(in crate::listener) fn http2(stream: Stream, service: S, tasks: CallTasks) -> Spoken<S> {
        let connection = http2(tasks).serve_connection(TokioIo::new(stream), Calls::of(service));
        Spoken::Http2 { connection }
    }

    pub(in crate::listener) fn http1(stream: Stream, service: S) -> Spoken<S> {
        let refusal = Refusal::default();
        let heads = Heads::new(stream, Refusal::clone(&refusal));
        // A head has its time there, too, and a connection without a call its own.
        let mut http1 = http1::Builder::new();
        http1.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
        let connection = http1.serve_connection(TokioIo::new(heads), Calls::judged(service, refusal));
        Spoken::Http1 { connection }
    }

    /// The connection takes no more calls, and ends after those that it has.
    pub(in crate::listener) fn leave(self: Pin<&mut Self>) {
        match self.project() {
            Projected::Http1 { connection } => connection.graceful_shutdown(),
            Projected::Http2 { connection } => connection.graceful_shutdown(),
        }
    }
}

impl<S> Future for Spoken<S>
where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Output = hyper::Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match self.project() {
            Projected::Http1 { connection } => connection.poll(context),
            Projected::Http2 { connection } => connection.poll(context),
        }
    }
}

fn http2(tasks: CallTasks) -> http2::Builder<CallTasks> {
    let mut builder = http2::Builder::new(tasks);
    builder
        // gRPC has no use for one.
        .auto_date_header(false)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .max_header_list_size(HEADER_BYTES_READ);
    builder
}
