//! The body of a request: its bytes are counted as they arrive, message by message, and it is drained even if its call ends
//! before it has arrived.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tonic::Status;

use super::call::CallAccount;
use super::connection::{ConnectionAccount, OpenCall};
use super::refusals;
use crate::domain::Rejection;
use crate::wire::errors;
use crate::wire::reasons::During;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The gRPC message header: a flag, and four bytes of length.
const HEADER_BYTES: usize = 5;

/// Request-body drain: how much is read, and for how long, of a request that was answered before it arrived; after that its
/// stream is reset. A stream whose end is not read is reset too, and bytes that arrive on a forgotten stream count as the
/// client's protocol error: with too many of them HTTP/2 ends the connection, with the calls of all clients behind the same
/// proxy. The bound is above the default size of the largest batch, and clients stop sending once they have read their answer.
const DRAINED_BYTES_MAX: usize = 4 << 20;
const DRAIN_WITHIN: Duration = Duration::from_secs(1);

/// A request body that a separate task can read.
pub(crate) trait Readable: Body<Data = Bytes> + Unpin + Send + 'static {}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Readable for B {}

/// See the module.
pub(crate) struct RequestBody<B: Readable> {
    rest: BodyDrain<B>,
    call: Arc<CallAccount>,
    during: During,
    framing: Framing,
}

impl<B: Readable> RequestBody<B> {
    pub(crate) fn new(
        body: B,
        call: Arc<CallAccount>,
        during: During,
        message_bytes_max: usize,
        shape: Shape,
    ) -> RequestBody<B> {
        call.state().receiving.begin(call.now());
        let rest = BodyDrain::of(body, call.connection());
        RequestBody { rest, call, during, framing: Framing::new(message_bytes_max, shape) }
    }

    fn refused(&self, rejection: &Rejection) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let status: Status = errors::status(rejection, self.during);
        Poll::Ready(Some(Err(status.into())))
    }
}

/// The content of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One message of gRPC, with its length before it.
    Message,
    /// Any number of gRPC messages. The call has processed each when the next one begins.
    Messages,
    /// One message of the HTTP listener, without a length before it.
    Bare,
}

/// The position of a body within its messages.
struct Framing {
    header: [u8; HEADER_BYTES],
    /// Number of header bytes that are there.
    known: usize,
    /// Number of message bytes that are missing.
    left: usize,
    /// Whether its bytes are counted: a message that is too long is refused by its length, elsewhere.
    counts: bool,
    /// Number of messages that have begun.
    begun: u64,
    message_bytes_max: usize,
    shape: Shape,
}

impl Framing {
    fn new(message_bytes_max: usize, shape: Shape) -> Framing {
        let header = [0; HEADER_BYTES];
        // A bare message may have this many bytes, and has no length before it.
        let left = if shape == Shape::Bare { message_bytes_max } else { 0 };
        Framing { header, known: 0, left, counts: true, begun: 0, message_bytes_max, shape }
    }

    /// Refuses a bare message that announces more bytes than it may have, before they arrive.
    fn announced(&self, bytes: u64) -> Result<(), Rejection> {
        let fits = usize::try_from(bytes).is_ok_and(|bytes| bytes <= self.left);
        if self.shape == Shape::Bare && !fits {
            Err(refusals::too_large(self.message_bytes_max))
        } else {
            Ok(())
        }
    }

    /// Parses bytes that arrived, and takes the bytes of messages.
    fn follow(&mut self, mut data: &[u8], call: &CallAccount) -> Result<(), Rejection> {
        while !data.is_empty() {
            if self.left > 0 {
                let now = self.left.min(data.len());
                self.left -= now;
                data = &data[now..];
                if self.counts {
                    call.take_message(now)?;
                }
                continue;
            }
            if self.shape == Shape::Bare {
                return Err(refusals::too_large(self.message_bytes_max));
            }
            let now = data.len().min(HEADER_BYTES - self.known);
            self.header[self.known..self.known + now].copy_from_slice(&data[..now]);
            self.known += now;
            data = &data[now..];
            if self.known == HEADER_BYTES {
                self.known = 0;
                self.begin(call)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, call: &CallAccount) -> Result<(), Rejection> {
        self.begun += 1;
        if self.shape == Shape::Messages {
            call.end_message();
            call.state().receiving.begin(call.now());
        } else if self.begun > 1 {
            // The transport would discard it, and carry out the first message.
            return Err(refusals::second_message());
        }
        let [_, a, b, c, d] = self.header;
        self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        self.counts = self.left <= self.message_bytes_max;
        Ok(())
    }

    /// Whether the client owes more bytes now: a stream may pause between two messages, a unary call has one message.
    fn is_owed(&self) -> bool {
        self.shape != Shape::Messages || self.left > 0 || self.known > 0
    }
}

impl<B: Readable> Body for RequestBody<B>
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
        let Some(body) = &mut this.rest.body else { return Poll::Ready(None) };
        if let Err(rejection) = this.framing.announced(body.size_hint().lower()) {
            return this.refused(&rejection);
        }
        let Poll::Ready(frame) = Pin::new(body).poll_frame(context) else {
            if this.framing.is_owed() {
                this.call.state().receiving.wait(this.call.now());
            }
            return match this.call.goes_on(context) {
                Ok(()) => Poll::Pending,
                Err(rejection) => this.refused(&rejection),
            };
        };
        let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
        this.call.state().receiving.arrived(bytes, this.call.now());
        let frame = match frame {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => frame,
        };
        if let Some(data) = frame.data_ref()
            && let Err(rejection) = this.framing.follow(data, &this.call)
        {
            return this.refused(&rejection);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.rest.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

/// A body that is drained when this is dropped.
pub(crate) struct BodyDrain<B: Readable> {
    /// The body; `None` once this is dropped.
    body: Option<B>,
    connection: Arc<ConnectionAccount>,
}

impl<B: Readable> BodyDrain<B> {
    pub(crate) fn of(body: B, connection: &Arc<ConnectionAccount>) -> BodyDrain<B> {
        BodyDrain { body: Some(body), connection: Arc::clone(connection) }
    }
}

impl<B: Readable> Drop for BodyDrain<B> {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let mut read = 0;
        // Most requests have arrived completely by now, and need no task.
        if poll_drain(&mut body, &mut read, &mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        // The call stays open while its body is drained: a client may reset only a bounded number of open calls.
        let open = OpenCall::hold(&self.connection);
        runtime.spawn(async move {
            let rest = std::future::poll_fn(|context| poll_drain(&mut body, &mut read, context));
            let _in_time = timeout(DRAIN_WITHIN, rest).await;
            drop(open);
        });
    }
}

/// Ready at the end of the body, or when enough of it was drained.
fn poll_drain(body: &mut impl Readable, read: &mut usize, context: &mut Context<'_>) -> Poll<()> {
    while *read < DRAINED_BYTES_MAX {
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => *read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => break,
        }
    }
    Poll::Ready(())
}

#[cfg(test)]
mod tests;
