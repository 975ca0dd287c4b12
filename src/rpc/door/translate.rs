//! Behind the edge: converts a Connect message to a gRPC message, and back. Whatever the edge counted,
//! refused or admitted is not checked again here.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use prost_reflect::DynamicMessage;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use super::advice::{self, Advised};
use super::head::{Codec, RequestHead};
use super::json;
use crate::accounts::{Readable, RequestBody};
use crate::domain::Rejection;
use crate::wire::errors;
use crate::wire::reasons::During;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The prefix of each gRPC message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// Metadata after the message has this prefix before its name.
const TRAILER: &str = "trailer-";

/// The services, as the edge calls them for the door.
pub(crate) struct Translated<S>(S);

impl<S> Translated<S> {
    pub(crate) fn new(services: S) -> Translated<S> {
        Translated(services)
    }
}

impl<S, B> Service<Request<RequestBody<B>>> for Translated<S>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
    B: Readable,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<RequestBody<B>>) -> Self::Future {
        let Some(asked) = request.extensions_mut().remove::<RequestHead>() else {
            let refused = errors::internal("a request did not come through the door");
            return Box::pin(async move { Ok(errors::status(&refused, During::Other).into_http()) });
        };
        let message =
            |body| Body::new(Message { body: Some(body), asked: asked.clone(), arrived: BytesMut::new() });
        let answering = self.0.call(request.map(message));
        Box::pin(async move { Ok(answer(answering.await?, &asked).await) })
    }
}

/// The body of a request as one gRPC message. It is ready once the whole request has arrived.
struct Message<B: Readable> {
    /// `None` once it was read.
    body: Option<RequestBody<B>>,
    asked: RequestHead,
    arrived: BytesMut,
}

impl<B: Readable> Message<B>
where
    B::Error: Into<BoxError>,
{
    fn whole(&mut self) -> Result<Bytes, Rejection> {
        let arrived = std::mem::take(&mut self.arrived).freeze();
        let message = match self.asked.codec {
            Codec::Proto => arrived,
            Codec::Json => json::read(&arrived, &self.asked.method.input)?,
        };
        Ok(prefixed(&message))
    }
}

/// A gRPC message that is not compressed. The edge refuses messages whose length does not fit four bytes.
fn prefixed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    bytes.put_slice(message);
    bytes.freeze()
}

impl<B: Readable> http_body::Body for Message<B>
where
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        loop {
            let Some(body) = &mut this.body else { return Poll::Ready(None) };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Some(data) = frame.data_ref() {
                        this.arrived.extend_from_slice(data);
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    this.body = None;
                    let message = this.whole().map_err(|refused| errors::status(&refused, this.asked.during));
                    return Poll::Ready(Some(message.map(Frame::data).map_err(BoxError::from)));
                }
            }
        }
    }
}

/// The answer of a service: its message alone, or a status in the headers alone.
async fn answer(response: Response<Body>, asked: &RequestHead) -> Response<Body> {
    if response.headers().contains_key(Status::GRPC_STATUS) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let collected = match body.collect().await {
        Ok(collected) => collected,
        Err(status) => return status.into_http(),
    };
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let failed = trailers.get(Status::GRPC_STATUS).is_none_or(|status| status != "0");
    append_trailers(&mut head.headers, &trailers, failed);
    if failed {
        head.headers.entry(Status::GRPC_STATUS).or_insert_with(|| http::HeaderValue::from_static("2"));
        return Response::from_parts(head, Body::empty());
    }
    let Some(written) = message(&collected.to_bytes(), asked) else {
        let refused = errors::internal("an answer cannot be written for the door");
        return errors::status(&refused, asked.during).into_http();
    };
    head.headers.insert(CONTENT_TYPE, asked.codec.content_type());
    written.advised.insert(&mut head.headers);
    Response::from_parts(head, Body::new(http_body_util::Full::new(written.bytes)))
}

/// Appends the metadata that followed the message; for a failure its status as well.
fn append_trailers(headers: &mut HeaderMap, trailers: &HeaderMap, failed: bool) {
    for (name, value) in trailers {
        if !name.as_str().starts_with("grpc-") {
            if let Ok(name) = HeaderName::from_bytes(format!("{TRAILER}{name}").as_bytes()) {
                headers.append(name, value.clone());
            }
        } else if failed {
            headers.insert(name, value.clone());
        }
    }
}

struct Written {
    bytes: Bytes,
    advised: Advised,
}

/// The one message of an answer; `None` if it has no such message.
fn message(framed: &Bytes, asked: &RequestHead) -> Option<Written> {
    let output = &asked.method.output;
    let (prefix, message) = framed.split_at_checked(PREFIX_BYTES)?;
    let length = usize::try_from(u32::from_be_bytes(prefix[1..].try_into().ok()?)).ok()?;
    if prefix[0] != 0 || length != message.len() {
        return None;
    }
    let may_advise = advice::may_be_in(output);
    if asked.codec == Codec::Proto && !may_advise {
        return Some(Written { bytes: framed.slice(PREFIX_BYTES..), advised: Advised::default() });
    }
    let dynamic = DynamicMessage::decode(output.clone(), message).ok()?;
    let advised = if may_advise { Advised::by(&dynamic) } else { Advised::default() };
    let bytes = match asked.codec {
        Codec::Proto => framed.slice(PREFIX_BYTES..),
        Codec::Json => json::write(&dynamic).ok()?.into(),
    };
    Some(Written { bytes, advised })
}
