//! The HTTP door: the services by the Connect protocol (unary, JSON or protobuf, HTTP/1.1 or HTTP/2), for
//! clients without gRPC. It is in front of the edge and turns a call into a gRPC call, so that both take one
//! path: the same identity, rights, limits and accounts. Behind the edge, [`translate`] converts the
//! messages.

mod advice;
mod error;
mod head;
mod hosts;
mod json;
mod methods;
mod translate;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::{self, BoxFuture, Either, FutureExt as _};
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};
use http_body::{Frame, SizeHint};
use http_body_util::Full;
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use tower::Service;

use self::advice::Advised;
use self::head::{Codec, Refused, RequestHead};
pub use self::hosts::Hosts;
pub(crate) use self::methods::Methods;
pub(crate) use self::translate::Translated;
use super::edge::layer::{Edge, during};
use crate::accounts::{AnswerBody, BodyDrain, ConnectionAccount, OpenCall, kept_bytes};
use crate::domain::{Reason, Rejection};
use crate::identity::Guard;
use crate::listener::BadHead;
use crate::proto::ERROR_DOMAIN;
use crate::wire::errors;

/// The HTTP door of one connection.
pub(crate) struct HttpDoor<S> {
    edge: Edge<Translated<S>>,
    account: Arc<ConnectionAccount>,
    guard: Guard,
    methods: Methods,
    hosts: Hosts,
    explains: bool,
}

impl<S> HttpDoor<S> {
    pub(crate) fn new(
        edge: Edge<Translated<S>>,
        account: Arc<ConnectionAccount>,
        guard: Guard,
        methods: Methods,
        hosts: Hosts,
    ) -> HttpDoor<S> {
        HttpDoor { edge, account, guard, methods, hosts, explains: true }
    }

    /// The door in front of another service, whose errors never have the ledger's details.
    pub(crate) fn of_another_service(self) -> HttpDoor<S> {
        HttpDoor { explains: false, ..self }
    }

    /// What the request asks for, by its head alone.
    fn read_head(&self, request: &http::request::Parts) -> Result<RequestHead, Refused> {
        if let Some(BadHead(status, text)) = request.extensions.get() {
            return Err(Refused::Http(*status, text));
        }
        let hosts = (!self.guard.trust().knows_anybody()).then_some(&self.hosts);
        head::read(request, &self.methods, hosts)
    }

    /// The answer to a call that never reached the edge. Its body is bounded by the account of the address.
    fn refused(&self, refused: Refused, path: &str) -> Response<AnswerBody> {
        let open = OpenCall::begin(&self.account);
        let rejection = |text| Rejection::new(Reason::Unimplemented, text);
        let rejection = match refused {
            Refused::Http(status, text) => {
                let mut response = Response::new(Bytes::from_static(text.as_bytes()));
                *response.status_mut() = status;
                let headers = response.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
                if status == StatusCode::METHOD_NOT_ALLOWED {
                    headers.insert(ALLOW, HeaderValue::from_static("POST"));
                }
                return self.answer(response, open);
            }
            Refused::Streams => {
                rejection("this method streams: it is served by gRPC alone; nothing was changed")
            }
            Refused::Compressed => rejection(
                "the request is compressed, and this port reads the encoding `identity` alone; nothing was changed",
            ),
        };
        self.account.refused(&rejection);
        let status = errors::status(&rejection, during(path));
        self.answer(failed(status, HeaderMap::new(), self.explains).map(Bytes::from), open)
    }

    /// An answer whose head is charged like that of a refusal by the edge.
    fn answer(&self, response: Response<Bytes>, open: OpenCall) -> Response<AnswerBody> {
        self.account.sends_headers(kept_bytes(response.headers()));
        response.map(|body| AnswerBody::of_stranger(Full::new(body), &self.account, open))
    }
}

/// An error in Connect's form, with these headers of its answer. `explains`: whether the ledger's own details
/// stay.
fn failed(status: Status, mut headers: HeaderMap, explains: bool) -> Response<Vec<u8>> {
    let own =
        |status: &Status| status.get_details_error_info().is_some_and(|info| info.domain == ERROR_DOMAIN);
    let status =
        if explains || !own(&status) { status } else { Status::new(status.code(), status.message()) };
    let grpc = |name: &HeaderName| name.as_str().starts_with("grpc-");
    let names: Vec<HeaderName> = headers.keys().filter(|name| grpc(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
    for (name, value) in status.metadata().as_ref().iter().filter(|(name, _)| !grpc(name)) {
        if !headers.contains_key(name) {
            headers.append(name, value.clone());
        }
    }
    headers.insert(CONTENT_TYPE, Codec::Json.content_type());
    let wait = status.get_details_retry_info().and_then(|info| info.retry_delay);
    Advised::wait(wait).insert(&mut headers);
    let mut response = Response::new(error::body(&status));
    *response.status_mut() = error::code(status.code()).1;
    *response.headers_mut() = headers;
    response
}

/// The edge's answer in Connect's form. `charge` makes the body of an error.
fn translated(
    answer: Response<AnswerBody>,
    explains: bool,
    charge: impl FnOnce(AnswerBody, Vec<u8>) -> AnswerBody,
) -> Response<AnswerBody> {
    let status = Status::from_header_map(answer.headers()).filter(|status| status.code() != Code::Ok);
    let Some(status) = status else { return answer };
    let (head, old) = answer.into_parts();
    failed(status, head.headers, explains).map(|body| charge(old, body))
}

/// Adds what each answer of the door has. An HTTP/1.1 answer to a request that was not read ends the
/// connection: where the next request begins would be a guess. So does one to a request without a length: the
/// reader of heads does not follow chunks.
fn finished(mut response: Response<AnswerBody>, http1: bool, keep: bool) -> Response<AnswerBody> {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if http1 && !keep {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

impl<S> Service<Request<Incoming>> for HttpDoor<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<AnswerBody>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        let http1 = head.version < Version::HTTP_2;
        let has_length = !head.headers.contains_key(TRANSFER_ENCODING);
        let read = Arc::new(AtomicBool::new(http_body::Body::is_end_stream(&body)));
        let keep = {
            let read = Arc::clone(&read);
            move || has_length && read.load(Ordering::Relaxed)
        };
        let asked = match self.read_head(&head) {
            Ok(asked) => asked,
            Err(refused) => {
                let answer = finished(self.refused(refused, head.uri.path()), http1, keep());
                drop(BodyDrain::of(body, &self.account));
                return future::ready(Ok(answer)).boxed();
            }
        };
        let explains = self.explains;
        head::as_grpc(&mut head.headers);
        head.extensions.insert(asked);
        let request = Request::from_parts(head, Arriving { body, read });
        match self.edge.call(request) {
            // Refused by the door itself, without an account.
            Either::Left(refused) => {
                let Ok(answer) = refused.into_inner();
                let charge = |_, body: Vec<u8>| {
                    let open = OpenCall::hold(&self.account);
                    AnswerBody::of_stranger(Full::new(body.into()), &self.account, open)
                };
                let answer = translated(answer, explains, charge);
                future::ready(Ok(finished(answer, http1, keep()))).boxed()
            }
            Either::Right(answering) => Box::pin(async move {
                let answer = answering.await?;
                let charge = |answer: AnswerBody, body: Vec<u8>| answer.with(Full::new(body.into()));
                Ok(finished(translated(answer, explains, charge), http1, keep()))
            }),
        }
    }
}

/// A request body that reports when it was read to its end.
struct Arriving {
    body: Incoming,
    read: Arc<AtomicBool>,
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.read.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Span;
    use crate::wire::reasons::During;

    /// Many clients of HTTP know the standard header alone.
    #[test]
    fn error_with_a_wait_has_both_headers_of_the_wait() {
        let with = |reason, wait| Rejection { retry_after: Some(wait), ..Rejection::new(reason, "") };
        for (rejection, status, wait) in [
            (Rejection::new(Reason::Overloaded, ""), 429, Some(("250", "1"))),
            (with(Reason::QuotaExceeded, Span::from_millis(1_001)), 429, Some(("1001", "2"))),
            (Rejection::new(Reason::Draining, ""), 503, Some(("50", "1"))),
            (Rejection::new(Reason::Unauthenticated, ""), 401, None),
        ] {
            let answer = errors::status(&rejection, During::Claim).into_http().map(AnswerBody::refused);
            let charge = |answer: AnswerBody, body: Vec<u8>| answer.with(Full::new(body.into()));
            let answer = translated(answer, true, charge);
            let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap());
            let found = (header("idempotency-ledger-retry-after-ms"), header("retry-after"));
            assert_eq!((answer.status().as_u16(), found), (status, wait.unzip()), "{rejection:?}");
        }
    }
}
