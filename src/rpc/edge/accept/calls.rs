//! The calls of a connection, counted from their headers to the last byte of their answers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

/// How many calls are open on a connection, and how many there ever were.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<Counts>);

#[derive(Default)]
struct Counts {
    open: AtomicUsize,
    begun: AtomicU64,
}

impl Open {
    pub(super) fn is_none(&self) -> bool {
        self.0.open.load(Ordering::SeqCst) == 0
    }

    /// How many calls began since the connection did: a look at the clock for each of them would cost more.
    pub(super) fn begun(&self) -> u64 {
        self.0.begun.load(Ordering::Relaxed)
    }

    fn begin(&self) -> Call {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        self.0.begun.fetch_add(1, Ordering::Relaxed);
        Call(self.clone())
    }
}

/// One of them, for as long as this lives.
struct Call(Open);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection's service, which counts.
pub(super) struct Calls<S> {
    service: S,
    open: Open,
}

impl<S> Calls<S> {
    pub(super) fn new(service: S, open: Open) -> Calls<S> {
        Calls { service, open }
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible> + Clone,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        // The routes and the layer above them are ready at any time.
        Answering { answer: self.service.clone().call(request), call: Some(self.open.begin()) }
    }
}

pin_project! {
    /// A call that is carried out.
    pub(super) struct Answering<F> {
        #[pin]
        answer: F,
        call: Option<Call>,
    }
}

impl<F> Future for Answering<F>
where
    F: Future<Output = Result<Response<Body>, Infallible>>,
{
    type Output = Result<Response<Answer>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.answer.poll(context))?;
        let call = this.call.take();
        Poll::Ready(Ok(response.map(|body| Answer { body, _call: call })))
    }
}

/// The body of an answer: its call is open until it is dropped.
pub(super) struct Answer {
    body: Body,
    _call: Option<Call>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
