//! A connection that takes little of the machine, which the server may be on, too: a call is no task of its own, and waits in
//! no queue, as it does with tonic's channel.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tower::Service;

use crate::rpc::proto::ledger_service_client::LedgerServiceClient;

/// How much of an answer, and of all answers, the server may send before it is read.
const ANSWER_WINDOW: u32 = 2 << 20;
const ANSWERS_WINDOW: u32 = 5 << 20;

/// The consumers' service.
pub(super) type Ledger = LedgerServiceClient<Link>;

/// See the module. Clones are calls on the same connection.
#[derive(Clone)]
pub(super) struct Link {
    calls: SendRequest<Bytes>,
    /// Says who calls.
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

impl Link {
    /// HTTP/2 over these bytes. A call that is not answered in time fails.
    ///
    /// # Errors
    /// The server does not speak HTTP/2.
    pub(super) async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        authorization: Option<HeaderValue>,
        timeout: Duration,
    ) -> Result<Link, h2::Error> {
        let (calls, connection) = Builder::new()
            .initial_window_size(ANSWER_WINDOW)
            .initial_connection_window_size(ANSWERS_WINDOW)
            .enable_push(false)
            .handshake(stream)
            .await?;
        // Its error is the error of each of its calls, too.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Link { calls, authorization, timeout })
    }
}

impl Service<Request<Body>> for Link {
    type Response = Response<Answer>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answer>, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.calls.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (mut head, body) = request.into_parts();
        if let Some(authorization) = &self.authorization {
            head.headers.insert(AUTHORIZATION, authorization.clone());
        }
        let begun = self.calls.send_request(Request::from_parts(head, ()), false);
        let within = self.timeout;
        Box::pin(async move {
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

/// Sends a request. Its last bytes end it, with no frame of its own for that.
async fn send(mut body: Body, mut stream: SendStream<Bytes>) -> Result<(), Box<dyn Error + Send + Sync>> {
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

    /// More than the server may send unread, in all of them.
    const ANSWERS: usize = 100;
    const ANSWER_BYTES: usize = 100 * 1_024;

    /// A link to a server that answers so.
    async fn linked(within: Duration, mut answer: impl FnMut(SendResponse<Bytes>) + Send + 'static) -> Link {
        let (ours, theirs): (DuplexStream, DuplexStream) = tokio::io::duplex(64 * 1_024);
        tokio::spawn(async move {
            let mut server = h2::server::handshake(theirs).await.expect("HTTP/2");
            while let Some(Ok((request, reply))) = server.accept().await {
                assert_eq!(request.headers().get(AUTHORIZATION), Some(&HeaderValue::from_static("Bearer x")));
                answer(reply);
            }
        });
        Link::over(ours, Some(HeaderValue::from_static("Bearer x")), within).await.expect("a connection")
    }

    async fn called(link: &mut Link) -> Result<Response<Answer>, Box<dyn Error + Send + Sync>> {
        std::future::poll_fn(|context| link.poll_ready(context)).await?;
        link.call(Request::post("http://ledger/x").body(Body::empty())?).await
    }

    #[tokio::test]
    async fn answers_are_read_to_their_trailers_however_many_they_are() {
        let mut link = linked(Duration::from_secs(10), |mut reply| {
            let mut stream = reply.send_response(Response::new(()), false).expect("it is asked");
            stream.send_data(vec![b'a'; ANSWER_BYTES].into(), false).expect("it is open");
            let status = HeaderMap::from_iter([(
                "grpc-status".parse().expect("a name"),
                "0".parse().expect("a value"),
            )]);
            stream.send_trailers(status).expect("it is open");
        })
        .await;
        for _ in 0..ANSWERS {
            let answer = called(&mut link).await.expect("an answer").into_body().collect();
            let answer = timeout(Duration::from_secs(10), answer).await.expect("in time").expect("all of it");
            assert_eq!(
                answer.trailers().and_then(|trailers| trailers.get("grpc-status")?.to_str().ok()),
                Some("0")
            );
            assert_eq!(answer.to_bytes().len(), ANSWER_BYTES);
        }
    }

    #[tokio::test]
    async fn whoever_is_not_answered_in_time_is_told() {
        let mut kept = Vec::new();
        let mut link = linked(Duration::from_millis(20), move |reply| kept.push(reply)).await;
        let error = called(&mut link).await.err().expect("no answer");
        let status = error.downcast::<Status>().expect("a status");
        assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    }
}
