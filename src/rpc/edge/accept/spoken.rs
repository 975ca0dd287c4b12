//! What is spoken on a connection: HTTP/2, or on the HTTP door HTTP/1.1, one call at a time.

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

use super::heads::{HEAD_BYTES_MAX, Heads, Refusal};
use super::service::Calls;
use super::stream::Stream;
use crate::rpc::edge::account::{Answer, CallTasks};

/// What a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// gRPC, which is HTTP/2.
    Grpc,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

pin_project! {
    /// See the module.
    #[project = Projected]
    pub(super) enum Spoken<S>
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
    pub(super) fn http2(stream: Stream, service: S, tasks: CallTasks) -> Spoken<S> {
        let connection = super::http2(tasks).serve_connection(TokioIo::new(stream), Calls::of(service));
        Spoken::Http2 { connection }
    }

    pub(super) fn http1(stream: Stream, service: S) -> Spoken<S> {
        let refusal = Refusal::default();
        let heads = Heads::new(stream, Refusal::clone(&refusal));
        // A head has its time there, too, and a connection without a call its own.
        let mut http1 = http1::Builder::new();
        http1.header_read_timeout(None).max_buf_size(HEAD_BYTES_MAX);
        let connection = http1.serve_connection(TokioIo::new(heads), Calls::judged(service, refusal));
        Spoken::Http1 { connection }
    }

    /// The connection takes no more calls, and ends after those that it has.
    pub(super) fn leave(self: Pin<&mut Self>) {
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
