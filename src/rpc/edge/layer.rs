//! The layer around every call: content type, deadline, memory of its request, and errors of the framework in
//! the ledger's own form.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::{self, Either, Ready};
use http::{HeaderMap, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tokio::time::{Instant, Timeout};
use tonic::body::Body;
use tonic::{Code, Status};
use tower::Service;

use super::auth::{AuthenticatedCaller, CallOrigin};
use crate::accounts::{
    self, AnswerBody, BodyDrain, CallAccount, CallOwner, HEADER_BYTES_MAX, OpenCall, REFLECTION_BYTES,
    Readable, RequestBody, STREAM_BYTES, Shape, Within, header_bytes, headers_too_large, kept_bytes,
};
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Reason, Rejection, TraceId, Violation};
use crate::identity::Rpc;
use crate::metrics::{CallMetrics, Connected, CountedCall};
use crate::traces::{Served, Traces};
use crate::wire::errors;
use crate::wire::reasons::During;

/// The header that lists the accepted compressions when one is refused.
const ACCEPTED: &str = "grpc-accept-encoding";

/// The paths of the ledger's own services.
const OURS: &str = "/idempotency.ledger.v1.";
/// The paths of the one service that needs no credential.
const HEALTH: &str = "/grpc.health.v1.Health/";
/// The paths of reflection, of both its versions.
const REFLECTION: &str = "/grpc.reflection.v1";

/// A tenth of the client's time, at most this, is left for the answer to arrive.
const DEADLINE_MARGIN_MAX: Duration = Duration::from_millis(200);

/// The options of every call.
#[derive(Clone, Copy)]
pub(crate) struct EdgeOptions {
    /// The deadline of a call that states none, and the longest of any call.
    pub(crate) deadline_max: Duration,
    /// The largest request.
    pub(crate) bytes_max: usize,
    /// A call that takes at least this long is logged as slow.
    pub(crate) slow_call: Duration,
    /// Whether requests are bare messages, as the HTTP door passes them.
    pub(crate) bare: bool,
}

/// The layer of one connection.
pub(crate) struct Edge<S> {
    inner: S,
    options: EdgeOptions,
    connected: Arc<Connected>,
    origin: Arc<CallOrigin>,
    traces: Traces,
}

impl<S> Edge<S> {
    pub(crate) fn new(
        inner: S,
        options: EdgeOptions,
        calls: &CallMetrics,
        origin: CallOrigin,
        traces: Traces,
    ) -> Edge<S> {
        let (connected, origin) = (Arc::new(calls.connected()), Arc::new(origin));
        Edge { inner, options, connected, origin, traces }
    }

    /// Authenticates the caller and opens the account of the call: a call that is refused here has cost the
    /// server only its headers.
    fn admit<B>(
        &self,
        request: &mut Request<B>,
        open: OpenCall,
        served: &Served,
        deadline: Instant,
    ) -> Result<(Arc<CallAccount>, Option<TraceId>), Rejection> {
        let (account, headers) = (self.origin.account(), request.headers());
        let header_bytes = header_bytes(headers);
        if header_bytes > HEADER_BYTES_MAX {
            let refused = headers_too_large(header_bytes, HEADER_BYTES_MAX);
            account.refused(&refused);
            return Err(refused);
        }
        let path = request.uri().path();
        if path.starts_with(HEALTH) {
            // A Watch is long-lived, and must not take the places of other clients' Checks.
            let who = if path.ends_with("/Check") { CallOwner::Probe } else { CallOwner::Stranger };
            let call = CallAccount::admit(account, open, &who, None, header_bytes)?;
            return Ok((call, None));
        }
        let rpc = path.rsplit('/').next().and_then(Rpc::of);
        let caller = AuthenticatedCaller::of(&self.origin, rpc, headers, served.span().clone())?;
        if let Some(rpc) = rpc {
            caller.may_call(rpc)?;
        }
        let stream_bytes = if is_stream(path) { STREAM_BYTES } else { 0 };
        let (who, kept_bytes) = if path.starts_with(REFLECTION) {
            (CallOwner::asks_for_no_data(caller.identity()), header_bytes + stream_bytes + REFLECTION_BYTES)
        } else {
            (CallOwner::Known(caller.identity()), header_bytes + stream_bytes)
        };
        let call = CallAccount::admit(account, open, &who, rpc, kept_bytes)?;
        let trace_id = caller.trace_id;
        let http1 = request.version() < http::Version::HTTP_2;
        request.extensions_mut().insert(caller.admitted(&call, deadline, http1));
        Ok((call, trace_id))
    }
}

impl<S, B> Service<Request<B>> for Edge<S>
where
    S: Service<Request<RequestBody<B>>, Response = Response<Body>>,
    B: Readable,
{
    type Response = Response<AnswerBody>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<AnswerBody>, S::Error>>, EdgeFuture<S::Future>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let open = OpenCall::begin(self.origin.account());
        if !is_grpc(request.headers()) {
            let answer = unsupported_media_type();
            self.origin.account().sends_headers(kept_bytes(answer.headers()));
            return Either::Left(refused(answer, self.drain(request)));
        }
        let options = self.options;
        let path = request.uri().path();
        let mut counted = self.connected.begin(path);
        let ours = path.starts_with(OURS);
        let is_stream = is_stream(path);
        let during = during(path);
        let shape = match (options.bare, is_stream) {
            (true, _) => Shape::Bare,
            (false, true) => Shape::Messages,
            (false, false) => Shape::Message,
        };
        let takes = deadline(request.headers()).map_or(options.deadline_max, |asked| {
            asked.saturating_sub(DEADLINE_MARGIN_MAX.min(asked / 10)).min(options.deadline_max)
        });
        let deadline = Instant::now() + takes;
        let mut served = if ours {
            self.traces.call(counted.path(), request.headers())
        } else {
            // Health and reflection.
            Served::default()
        };
        let (call, trace_id) = match self.admit(&mut request, open, &served, deadline) {
            Ok(admitted) => admitted,
            Err(rejection) => {
                let answer = errors::status(&rejection, during).into_http();
                let code = code(answer.headers());
                counted.end(code, counted.took());
                served.end(code);
                self.origin.account().sends_headers(kept_bytes(answer.headers()));
                return Either::Left(refused(answer, self.drain(request)));
            }
        };
        let body = |body| RequestBody::new(body, Arc::clone(&call), during, options.bytes_max, shape);
        let request = request.map(body);
        let answer = accounts::within(Arc::clone(&call), self.inner.call(request));
        let answer = tokio::time::timeout_at(deadline, answer);
        Either::Right(EdgeFuture {
            answer,
            ours,
            is_stream,
            during,
            options,
            call,
            counted,
            served,
            trace_id,
        })
    }
}

impl<S> Edge<S> {
    /// The body of a refused request, which is drained.
    fn drain<B: Readable>(&self, request: Request<B>) -> BodyDrain<B> {
        BodyDrain::of(request.into_body(), self.origin.account())
    }
}

/// The answer to a call that was refused before it had an account.
fn refused<E, B: Readable>(
    answer: Response<Body>,
    rest: BodyDrain<B>,
) -> Ready<Result<Response<AnswerBody>, E>> {
    drop(rest);
    future::ready(Ok(answer.map(AnswerBody::refused)))
}

pin_project! {
    /// A call in progress. A named type, so that the future needs no separate allocation.
    pub(crate) struct EdgeFuture<F> {
        #[pin]
        answer: Timeout<Within<F>>,
        ours: bool,
        is_stream: bool,
        during: During,
        options: EdgeOptions,
        call: Arc<CallAccount>,
        counted: CountedCall,
        served: Served,
        trace_id: Option<TraceId>,
    }
}

impl<F, E> Future for EdgeFuture<F>
where
    F: Future<Output = Result<Response<Body>, E>>,
{
    type Output = Result<Response<AnswerBody>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let answer = match ready!(this.answer.poll(context)) {
            Ok(Ok(response)) if *this.ours => Ok(explained(response, this.options.bytes_max, *this.during)),
            Ok(answer) => answer,
            Err(_) => Ok(errors::status(&too_late(), *this.during).into_http()),
        };
        let code = answer.as_ref().map_or(Code::Unknown, |response| code(response.headers()));
        // The time that a call waited does not count: it is not slow by that.
        let took = this.counted.took().saturating_sub(this.call.rested());
        if took >= this.options.slow_call {
            let trace_id = this.trace_id.map(tracing::field::display);
            let seconds = took.as_secs_f64();
            warn_once_a_second!(method = this.counted.method(), seconds, ?code, trace_id, "a call was slow");
        }
        this.counted.end(code, took);
        this.served.end(code);
        let call = Arc::clone(this.call);
        if let Ok(response) = &answer
            && (code != Code::Ok || *this.is_stream)
        {
            call.sends_headers(kept_bytes(response.headers()));
        }
        // The outcome of its items is in the answer, and in the queue's own account.
        if !*this.is_stream {
            call.end_message();
        }
        Poll::Ready(answer.map(|response| response.map(|body| AnswerBody::of(body, call))))
    }
}

/// The kind of a call by its path, where status codes depend on it.
pub(crate) fn during(path: &str) -> During {
    if path.ends_with("Claim") { During::Claim } else { During::Other }
}

/// Whether the request of a call has many messages.
fn is_stream(path: &str) -> bool {
    path.starts_with(REFLECTION) || path.ends_with("/ImportEntries")
}

/// The status of an answer by its headers. A status in the trailers is not known yet: only a server stream
/// can fail by then.
fn code(headers: &HeaderMap) -> Code {
    headers.get(Status::GRPC_STATUS).map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()))
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let rest = value.and_then(|value| value.strip_prefix("application/grpc"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('+') || rest.starts_with(';'))
}

fn unsupported_media_type() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response
}

/// `grpc-timeout`: at most eight digits and a unit.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let amount: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    Some(match unit {
        "H" => Duration::from_secs(amount * 3_600),
        "M" => Duration::from_secs(amount * 60),
        "S" => Duration::from_secs(amount),
        "m" => Duration::from_millis(amount),
        "u" => Duration::from_micros(amount),
        "n" => Duration::from_nanos(amount),
        _ => return None,
    })
}

fn too_late() -> Rejection {
    Rejection::new(
        Reason::DeadlineExceeded,
        "the deadline passed before the answer was there; it may still be carried out: repeat the identical request",
    )
}

/// Errors of the framework, which carry no details, in the ledger's own form.
fn explained(response: Response<Body>, bytes_max: usize, during: During) -> Response<Body> {
    if response.headers().contains_key("grpc-status-details-bin") {
        return response;
    }
    let Some(status) = Status::from_header_map(response.headers()) else { return response };
    let Some(rejection) = rejection(&status, bytes_max) else { return response };
    let mut explained = errors::status(&rejection, during).into_http();
    if let Some(known) = response.headers().get(ACCEPTED) {
        explained.headers_mut().insert(ACCEPTED, known.clone());
    }
    explained
}

/// What the framework means by one of its errors; `None` if the status is not one of those.
pub(crate) fn rejection(status: &Status, bytes_max: usize) -> Option<Rejection> {
    if let Some(rejection) = accounts::refusal(status) {
        return Some(rejection);
    }
    Some(match status.code() {
        // The second code: the message is larger than that once decompressed.
        Code::OutOfRange | Code::ResourceExhausted => accounts::too_large(bytes_max),
        // The services return their own details: any other "internal" is an error of reading the request.
        Code::Internal => Rejection::invalid(vec![unreadable(status.message())]),
        Code::DeadlineExceeded => too_late(),
        Code::Cancelled => Rejection::new(
            Reason::Cancelled,
            "the call was cancelled; it may still be carried out: repeat the identical request",
        ),
        Code::Unimplemented => Rejection::new(
            Reason::Unimplemented,
            "this server knows no such method, or cannot read messages that are compressed like this; nothing was \
             changed",
        ),
        Code::Ok
        | Code::Unknown
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => return None,
    })
}

/// The fault of a request that cannot be decoded, by the words of tonic and prost.
fn unreadable(message: &str) -> Violation {
    let field = field_of(message);
    let description = if message.contains("decode Protobuf") {
        "is not valid protobuf: text must be UTF-8, and lengths must fit"
    } else {
        "is not one whole gRPC message: a flag of 0 or 1, four bytes of length, and as many bytes as that"
    };
    Violation { field, description: description.to_owned() }
}

/// The path of a field in a decoder's message, which names `Message.field` from the inside out.
fn field_of(message: &str) -> String {
    let parts = message.split(": ").filter_map(|part| {
        let (outer, field) = part.split_once('.')?;
        let name = outer.chars().all(char::is_alphanumeric) && !outer.is_empty();
        (name && field.chars().all(|c| c.is_alphanumeric() || c == '_')).then_some(field)
    });
    let mut path: Vec<&str> = parts.collect();
    path.reverse();
    if path.is_empty() { "request".to_owned() } else { path.join(".") }
}

#[cfg(test)]
mod tests;
