//! A gRPC connection that uses little of the machine, since the server may run on the same one: a call is not
//! a separate task and waits in no queue, unlike with tonic's channel. If the server ends the connection, the
//! link reconnects.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use h2::client::{Builder, SendRequest};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use crate::common::deferred_poll::DeferredPoll;
use crate::proto::ledger_service_client::LedgerServiceClient;

/// The flow-control window, of one answer and of all: how much the server may send before it is read.
const ANSWER_WINDOW: u32 = 2 << 20;
const ANSWERS_WINDOW: u32 = 5 << 20;
/// The interval of keepalive pings, and the time for their answer.
const ALIVE_EVERY: Duration = Duration::from_secs(20);

/// The header with the deadline of a call.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The client of the consumers' service.
pub(super) type LedgerClient = LedgerServiceClient<Link>;

type Failed = Box<dyn Error + Send + Sync>;
/// Sends the requests of one connection.
pub(super) type CallSender = SendRequest<Bytes>;
type Dial = dyn Fn(UnderWay) -> BoxFuture<'static, Result<CallSender, Failed>> + Send + Sync;

/// The number of calls in flight on a connection.
#[derive(Clone, Default)]
pub(super) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    fn begin(&self) -> Begun {
        self.0.fetch_add(1, Ordering::Relaxed);
        Begun(self.clone())
    }

    fn calls(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// One of them, until this is dropped.
struct Begun(UnderWay);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Begins HTTP/2 on this stream.
///
/// # Errors
/// The server does not speak HTTP/2.
pub(super) async fn over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    under_way: UnderWay,
) -> Result<CallSender, h2::Error> {
    let (calls, mut connection) = Builder::new()
        .initial_window_size(ANSWER_WINDOW)
        .initial_connection_window_size(ANSWERS_WINDOW)
        .enable_push(false)
        .handshake(stream)
        .await?;
    let pings = connection.ping_pong();
    let connection = DeferredPoll::new(connection, move || under_way.calls());
    // Its error is also the error of each of its calls.
    let carried = tokio::spawn(async move { drop(connection.await) }).abort_handle();
    // A separate task: otherwise its timer would be polled with every poll of the connection.
    tokio::spawn(async move {
        deaf(pings).await;
        carried.abort();
    });
    Ok(calls)
}

/// Resolves once the other side no longer answers pings.
async fn deaf(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(ALIVE_EVERY).await;
        if !matches!(timeout(ALIVE_EVERY, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

/// The present connection, and how to reconnect.
struct Line {
    dial: Box<Dial>,
    under_way: UnderWay,
    /// The number of reconnects, and the present connection.
    present: Mutex<(u64, CallSender)>,
}

impl Line {
    /// A connection later than this one: another call may have reconnected already.
    async fn after(self: Arc<Line>, number: u64) -> Result<(u64, CallSender), Failed> {
        let mut present = self.present.lock().await;
        if present.0 <= number {
            *present = (number + 1, (self.dial)(self.under_way.clone()).await?);
        }
        Ok(present.clone())
    }
}

/// A client's connection; clones send their calls on the same one.
pub(super) struct Link {
    line: Arc<Line>,
    number: u64,
    calls: CallSender,
    /// Reconnects, after the connection has ended.
    again: Option<BoxFuture<'static, Result<(u64, CallSender), Failed>>>,
    /// The client's credential.
    authorization: Option<HeaderValue>,
    timeout: Duration,
    /// `timeout` as the header that the server reads.
    deadline: HeaderValue,
}

impl Clone for Link {
    fn clone(&self) -> Link {
        let Link { line, number, calls, authorization, timeout, deadline, again: _ } = self;
        let (line, calls) = (Arc::clone(line), calls.clone());
        let (authorization, deadline) = (authorization.clone(), deadline.clone());
        Link { line, number: *number, calls, again: None, authorization, timeout: *timeout, deadline }
    }
}

impl Link {
    /// Connects by `dial`. A call that is not answered within `timeout` fails.
    ///
    /// # Errors
    /// Those of `dial`.
    pub(super) async fn new(
        dial: Box<Dial>,
        authorization: Option<HeaderValue>,
        timeout: Duration,
    ) -> Result<Link, Failed> {
        let under_way = UnderWay::default();
        let calls = dial(under_way.clone()).await?;
        let line = Arc::new(Line { dial, under_way, present: Mutex::new((0, calls.clone())) });
        let deadline = HeaderValue::try_from(grpc_timeout(timeout))?;
        Ok(Link { line, number: 0, calls, again: None, authorization, timeout, deadline })
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<ArrivingAnswer>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ArrivingAnswer>, Failed>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        if self.again.is_none() {
            if ready!(self.calls.poll_ready(context)).is_ok() {
                return Poll::Ready(Ok(()));
            }
            self.again = Some(Box::pin(Arc::clone(&self.line).after(self.number)));
        }
        if let Some(again) = &mut self.again {
            let made = ready!(again.as_mut().poll(context));
            self.again = None;
            (self.number, self.calls) = made?;
        }
        self.calls.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        if let Some(authorization) = &self.authorization {
            head.headers.insert(AUTHORIZATION, authorization.clone());
        }
        head.headers.insert(GRPC_TIMEOUT, self.deadline.clone());
        let begun = self.calls.send_request(Request::from_parts(head, ()), false);
        let (within, under_way) = (self.timeout, self.line.under_way.begin());
        Box::pin(async move {
            let _under_way = under_way;
            let (answer, stream) = begun?;
            let answered = timeout(within, async {
                send(body, stream).await?;
                Ok(answer.await?.map(ArrivingAnswer::new))
            });
            let late = || Status::deadline_exceeded(format!("no answer within {within:?}"));
            answered.await.unwrap_or_else(|_| Err(late().into()))
        })
    }
}

/// A duration as gRPC writes it: at most eight digits. Made once: formatted for each call it took 1 % of the
/// client's time.
fn grpc_timeout(time: Duration) -> String {
    const DIGITS_MAX: u128 = 99_999_999;
    match (time.as_micros(), time.as_millis()) {
        (micros @ 0..=DIGITS_MAX, _) => format!("{micros}u"),
        (_, millis @ 0..=DIGITS_MAX) => format!("{millis}m"),
        _ => format!("{}S", u128::from(time.as_secs()).min(DIGITS_MAX)),
    }
}

/// Sends a request. Its last bytes end the stream, without a separate frame.
async fn send(mut body: Body, mut stream: SendStream<Bytes>) -> Result<(), Failed> {
    let mut before = Bytes::new();
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame?.into_data() {
            if !before.is_empty() {
                stream.send_data(before, false)?;
            }
            before = bytes;
        }
    }
    Ok(stream.send_data(before, true)?)
}

/// An answer that is still arriving.
pub(super) struct ArrivingAnswer {
    stream: RecvStream,
    /// Only trailers are left.
    read: bool,
}

impl ArrivingAnswer {
    fn new(stream: RecvStream) -> ArrivingAnswer {
        ArrivingAnswer { stream, read: false }
    }
}

impl http_body::Body for ArrivingAnswer {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.read {
            if let Some(bytes) = ready!(self.stream.poll_data(context)) {
                let bytes = bytes.and_then(|bytes| {
                    self.stream.flow_control().release_capacity(bytes.len())?;
                    Ok(Frame::data(bytes))
                });
                return Poll::Ready(Some(bytes));
            }
            self.read = true;
        }
        let trailers = ready!(self.stream.poll_trailers(context));
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}

#[cfg(test)]
mod tests {
    use h2::server::SendResponse;
    use http::HeaderMap;
    use tokio::io::DuplexStream;

    use super::*;

    /// Each answer is larger than what the server may send unread.
    const ANSWERS: usize = 10;
    const ANSWER_BYTES: usize = 3 << 20;

    /// A link to a server that answers like this, and ends each connection after this many calls.
    async fn linked(
        within: Duration,
        calls: usize,
        answer: impl FnMut(SendResponse<Bytes>) + Clone + Send + Sync + 'static,
    ) -> Link {
        let dial = move |under_way| {
            let mut answer = answer.clone();
            let (ours, theirs): (DuplexStream, DuplexStream) = tokio::io::duplex(64 * 1_024);
            tokio::spawn(async move {
                let mut server = h2::server::handshake(theirs).await.expect("HTTP/2");
                let mut answered = 0;
                while let Some(Ok((request, reply))) = server.accept().await {
                    let who = request.headers().get(AUTHORIZATION);
                    assert_eq!(who, Some(&HeaderValue::from_static("Bearer x")));
                    let time = request.headers().get(GRPC_TIMEOUT).and_then(|time| time.to_str().ok());
                    assert_eq!(time, Some(&*grpc_timeout(within)));
                    answer(reply);
                    answered += 1;
                    if answered == calls {
                        server.graceful_shutdown();
                    }
                }
            });
            Box::pin(async move { Ok(over(ours, under_way).await?) }) as BoxFuture<'static, _>
        };
        let who = Some(HeaderValue::from_static("Bearer x"));
        Link::new(Box::new(dial), who, within).await.expect("a connection")
    }

    async fn called(link: &mut Link) -> Result<Response<ArrivingAnswer>, Failed> {
        std::future::poll_fn(|context| link.poll_ready(context)).await?;
        link.call(Request::post("http://ledger/x").body(Body::empty())?).await
    }

    #[tokio::test]
    async fn answers_are_read_to_their_trailers() {
        // As many calls as a connection carries.
        for calls in [usize::MAX, 1, 7] {
            let mut link = linked(Duration::from_secs(10), calls, |mut reply| {
                let mut stream = reply.send_response(Response::new(()), false).expect("it is asked");
                stream.send_data(vec![b'a'; ANSWER_BYTES].into(), false).expect("it is open");
                let mut status = HeaderMap::new();
                status.insert("grpc-status", HeaderValue::from_static("0"));
                stream.send_trailers(status).expect("it is open");
            })
            .await;
            for number in 0..ANSWERS {
                let answer = called(&mut link).await.expect("an answer").into_body().collect();
                let answer =
                    timeout(Duration::from_secs(10), answer).await.expect("in time").expect("all of it");
                let status =
                    answer.trailers().and_then(|trailers| trailers.get("grpc-status")?.to_str().ok());
                assert_eq!(status, Some("0"), "{number} of {calls}");
                assert_eq!(answer.to_bytes().len(), ANSWER_BYTES);
            }
        }
    }

    #[test]
    fn times_have_at_most_eight_digits() {
        for (time, written) in [
            (Duration::from_micros(1), "1u"),
            (Duration::from_secs(10), "10000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(grpc_timeout(time), written);
        }
    }

    #[tokio::test]
    async fn call_without_an_answer_in_time_fails() {
        let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = move |reply| kept.lock().expect("never poisoned").push(reply);
        let mut link = linked(Duration::from_millis(20), usize::MAX, keep).await;
        let error = called(&mut link).await.err().expect("no answer");
        let status = error.downcast::<Status>().expect("a status");
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    }
}
