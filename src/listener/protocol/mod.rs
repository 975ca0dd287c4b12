//! The protocol of a connection: HTTP/2. The HTTP listeners also speak HTTP/1.1, one call at a time.

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

use crate::accounts::{AnswerBody, CallTasks, STREAM_WINDOW, STREAMS_MAX};
use crate::listener::fairness::poll_budget::BYTES_MAX;
use crate::listener::io::stream::Stream;
use crate::listener::protocol::http1_heads::{HEAD_BYTES_MAX, HeadValidator, Refusal};
use crate::listener::protocol::service::HyperService;

/// Bound against rapid reset: streams that their client reset before this server has looked at them; with more the connection
/// is ended. It bounds how many wait, not a rate: a call and its reset have at least 23 bytes, and one poll reads fewer than
/// this many of them, so that no client is cut off for a pause of the server. 4,096, 1,024 and no bound at all made no
/// difference in the floods, since the poll budget limits them (`edge::floods`).
const PENDING_RESETS_MAX: usize = BYTES_MAX / 16;
/// Connection flow-control window. The h2 crate derives a second bound from it: each waiting message below 256 bytes costs
/// the difference to 256, and all together may cost half of the window. 2 MiB allow 4,096 messages, several times those of one
/// poll budget.
const CONNECTION_WINDOW: u32 = 2 << 20;
/// Streams that this server resets for protocol errors of the client, at most, in the lifetime of a connection.
const LOCAL_RESETS_MAX: usize = 1_024;
/// Largest header list that is read. The bound of a call is lower, and a call that exceeds it is answered with a status. A call
/// with larger headers is refused by HTTP/2, or ends the connection with all of its other calls.
const HEADER_BYTES_READ: u32 = 64 * 1_024;

pin_project! {
    /// See the module.
    #[project = Projected]
    pub(in crate::listener) enum HttpConnection<S>
    where
        S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = Infallible>,
        S::Future: Send,
        S::Future: 'static,
    {
        Http1 { #[pin] connection: http1::Connection<TokioIo<HeadValidator<Stream>>, HyperService<S>> },
        Http2 { #[pin] connection: http2::Connection<TokioIo<Stream>, HyperService<S>, CallTasks> },
    }
}

impl<S> HttpConnection<S>
where
    S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    pub(in crate::listener) fn http2(stream: Stream, service: S, tasks: CallTasks) -> HttpConnection<S> {
        let connection = http2(tasks).serve_connection(TokioIo::new(stream), HyperService::of(service));
        HttpConnection::Http2 { connection }
    }

    pub(in crate::listener) fn http1(stream: Stream, service: S) -> HttpConnection<S> {
        let refusal = Refusal::default();
        let heads = HeadValidator::new(stream, Refusal::clone(&refusal));
        // The validator limits the time of a head, and the lifetime that of a connection without a call.
        let mut http1 = http1::Builder::new();
        http1.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
        let connection =
            http1.serve_connection(TokioIo::new(heads), HyperService::validated(service, refusal));
        HttpConnection::Http1 { connection }
    }

    /// Sends GOAWAY or `connection: close`: the connection accepts no more calls, and ends after its calls.
    pub(in crate::listener) fn graceful_shutdown(self: Pin<&mut Self>) {
        match self.project() {
            Projected::Http1 { connection } => connection.graceful_shutdown(),
            Projected::Http2 { connection } => connection.graceful_shutdown(),
        }
    }
}

impl<S> Future for HttpConnection<S>
where
    S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = Infallible>,
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
        // gRPC has no use for a Date header.
        .auto_date_header(false)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_stream_window_size(STREAM_WINDOW)
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
        .max_header_list_size(HEADER_BYTES_READ);
    builder
}
