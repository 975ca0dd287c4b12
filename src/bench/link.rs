//! A connection that takes little of the machine, which the server may be on, too: a call is no task of its own, and waits in
//! no queue, as it does with tonic's channel. A server that ends it is called again.

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

/// How much of an answer, and of all answers, the server may send before it is read.
const ANSWER_WINDOW: u32 = 2 << 20;
const ANSWERS_WINDOW: u32 = 5 << 20;
/// How often it is asked whether the other side is there, and how soon that has to answer.
const ALIVE_EVERY: Duration = Duration::from_secs(20);

/// How long the server has for a call.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The consumers' service.
pub(super) type Ledger = LedgerServiceClient<Link>;

type Failed = Box<dyn Error + Send + Sync>;
/// What carries calls.
pub(super) type Calls = SendRequest<Bytes>;
type Dial = dyn Fn(UnderWay) -> BoxFuture<'static, Result<Calls, Failed>> + Send + Sync;

/// How many calls are under way on a connection.
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

/// One of them, for as long as this lives.
struct Begun(UnderWay);

impl Drop for Begun {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// HTTP/2 over these bytes, for these calls.
///
/// # Errors
/// The server does not speak HTTP/2.
pub(super) async fn over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    under_way: UnderWay,
) -> Result<Calls, h2::Error> {
    let (calls, mut connection) = Builder::new()
        .initial_window_size(ANSWER_WINDOW)
        .initial_connection_window_size(ANSWERS_WINDOW)
        .enable_push(false)
        .handshake(stream)
        .await?;
    let pings = connection.ping_pong();
    let connection = DeferredPoll::new(connection, move || under_way.calls());
    // Its error is the error of each of its calls, too.
    let carried = tokio::spawn(async move { drop(connection.await) }).abort_handle();
    // A task of its own: else its timer would be looked at in each turn of the connection.
    tokio::spawn(async move {
        deaf(pings).await;
        carried.abort();
    });
    Ok(calls)
}

/// Resolves once the other side does not answer any more.
async fn deaf(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        sleep(ALIVE_EVERY).await;
        if !matches!(timeout(ALIVE_EVERY, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

/// The present connection, and how it is made again.
struct Line {
    dial: Box<Dial>,
    under_way: UnderWay,
    /// How often it was made again.
    present: Mutex<(u64, Calls)>,
}

impl Line {
    /// A connection later than this one: another call may have made it already.
    async fn after(self: Arc<Line>, number: u64) -> Result<(u64, Calls), Failed> {
        let mut present = self.present.lock().await;
        if present.0 <= number {
            *present = (number + 1, (self.dial)(self.under_way.clone()).await?);
        }
        Ok(present.clone())
    }
}

/// See the module. Clones are calls on the same connection.
pub(super) struct Link {
    line: Arc<Line>,
    number: u64,
    calls: Calls,
    /// The connection has ended.
    again: Option<BoxFuture<'static, Result<(u64, Calls), Failed>>>,
    /// Says who calls.
    authorization: Option<HeaderValue>,
    timeout: Duration,
    /// The same, as the server is told of it.
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
    /// A call that is not answered in time fails.
    ///
    /// # Errors
    /// There is no connection.
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
    type Response = Response<Answer>;
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Failed>> + Send>>;

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
                Ok(answer.await?.map(Answer::new))
            });
            let late = || Status::deadline_exceeded(format!("no answer within {within:?}"));
            answered.await.unwrap_or_else(|_| Err(late().into()))
        })
    }
}

/// A time as gRPC writes it: at most eight digits. Formatted for each call it took a hundredth of the client's time.
fn grpc_timeout(time: Duration) -> String {
    const DIGITS_MAX: u128 = 99_999_999;
    match (time.as_micros(), time.as_millis()) {
        (micros @ 0..=DIGITS_MAX, _) => format!("{micros}u"),
        (_, millis @ 0..=DIGITS_MAX) => format!("{millis}m"),
        _ => format!("{}S", u128::from(time.as_secs()).min(DIGITS_MAX)),
    }
}

/// Sends a request. Its last bytes end it, with no frame of its own for that.
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

/// An answer, as it comes.
pub(super) struct Answer {
    stream: RecvStream,
    /// Only trailers are left.
    read: bool,
}

impl Answer {
    fn new(stream: RecvStream) -> Answer {
        Answer { stream, read: false }
    }
}

impl http_body::Body for Answer {
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

    /// Each is more than the server may send unread.
    const ANSWERS: usize = 10;
    const ANSWER_BYTES: usize = 3 << 20;

    /// A link to a server that answers so, and ends each connection after so many calls.
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

    async fn called(link: &mut Link) -> Result<Response<Answer>, Failed> {
        std::future::poll_fn(|context| link.poll_ready(context)).await?;
        link.call(Request::post("http://ledger/x").body(Body::empty())?).await
    }

    #[tokio::test]
    async fn answers_are_read_to_their_trailers_however_many_they_are() {
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
    fn times_have_eight_digits_at_the_most() {
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
    async fn whoever_is_not_answered_in_time_is_told() {
        let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = move |reply| kept.lock().expect("never poisoned").push(reply);
        let mut link = linked(Duration::from_millis(20), usize::MAX, keep).await;
        let error = called(&mut link).await.err().expect("no answer");
        let status = error.downcast::<Status>().expect("a status");
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    }
}
