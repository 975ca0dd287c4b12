//! The calls of a connection, counted from their headers to the last byte of their answers.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::open::{Call, Open};
use super::rest::Whole;

/// A connection's service, which counts. Calls begin one after the other: none needs a clone of the service.
pub(super) struct Calls<S> {
    service: RefCell<S>,
    open: Open,
}

impl<S> Calls<S> {
    pub(super) fn new(service: S, open: Open) -> Calls<S> {
        Calls { service: RefCell::new(service), open }
    }
}

impl<S> hyper::service::Service<Request<Incoming>> for Calls<S>
where
    S: Service<Request<Whole<Incoming>>, Response = Response<Body>, Error = Infallible>,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Answering<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let request = request.map(|body| Whole::new(body, self.open.clone()));
        // The routes and the layer above them are ready at any time.
        Answering { answer: self.service.borrow_mut().call(request), call: Some(self.open.begin()) }
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
        Poll::Ready(Ok(response.map(|body| Answer { body, call })))
    }
}

/// The body of an answer: its call is open until it is dropped.
pub(super) struct Answer {
    body: Body,
    call: Option<Call>,
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // The transport asks for the first part before its client wants it: what nobody reads is seen at once.
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let Some(call) = &self.call else { return Poll::Ready(frame) };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|data| call.answers(data)))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
