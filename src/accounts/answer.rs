//! The body of an answer: its bytes are counted until the client has taken them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::call::{CallAccount, CallOwner};
use super::connection::{ConnectionAccount, OpenCall};

/// An answer is given to HTTP/2 in pieces of this size, one frame each: they show how much of a large answer a client has
/// taken, and HTTP/2 holds at most one piece beyond what the client's flow-control window allows.
const PIECE_BYTES: usize = 16 * 1_024;
/// What HTTP/2 adds to each header, by RFC 9113, where it defines `SETTINGS_MAX_HEADER_LIST_SIZE`.
const HEADER_OVERHEAD: usize = 32;

/// Bytes of memory that headers need until they are sent: measured 1.6 to 2.4 times what HTTP/2 counts.
pub(crate) fn kept_bytes(headers: &HeaderMap) -> usize {
    128 + 2 * header_bytes(headers)
}

/// Headers as HTTP/2 counts them.
pub(crate) fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD).sum()
}

/// Whether an answer that ends like this is not an error.
fn is_ok(headers: &HeaderMap) -> bool {
    headers.get(Status::GRPC_STATUS).is_none_or(|status| status == "0")
}

/// See the module. The call is in flight while this, or a piece of it, lives.
pub(crate) struct AnswerBody {
    body: Body,
    /// `None` if the call was refused before it had an account: then the answer has no body.
    call: Option<Arc<CallAccount>>,
    /// Bytes that are counted, but not given to HTTP/2 yet.
    rest: Bytes,
    /// The buffer of the rest; `None` if the rest is empty.
    buffer: Option<Arc<Buffer>>,
}

impl AnswerBody {
    /// The answer of a call that has an account.
    pub(crate) fn of(body: Body, call: Arc<CallAccount>) -> AnswerBody {
        AnswerBody { body, call: Some(call), rest: Bytes::new(), buffer: None }
    }

    /// The answer to a call without an account. Its body is charged to the address of its client; the body is empty if the
    /// address may hold no more bytes.
    pub(crate) fn of_stranger<B>(body: B, connection: &Arc<ConnectionAccount>, open: OpenCall) -> AnswerBody
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        match CallAccount::admit(connection, open, &CallOwner::Stranger, None, 0) {
            Ok(call) => AnswerBody::of(Body::new(body), call),
            Err(_) => AnswerBody::refused(Body::empty()),
        }
    }

    /// Replaces the body, and keeps the account.
    pub(crate) fn with<B>(self, body: B) -> AnswerBody
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        AnswerBody { body: Body::new(body), call: self.call, rest: Bytes::new(), buffer: None }
    }

    /// The answer of a call that was refused before it had an account.
    pub(crate) fn refused(body: Body) -> AnswerBody {
        AnswerBody { body, call: None, rest: Bytes::new(), buffer: None }
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let AnswerBody { body, call, rest, buffer } = &mut *self;
        let Some(call) = call else { return Pin::new(body).poll_frame(context) };
        if rest.is_empty() {
            // HTTP/2 asks for the next frame before the client's window has space for it, so bytes that the client does not
            // read are counted from the beginning.
            let frame = match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                ended => return Poll::Ready(ended),
            };
            match frame.into_data() {
                Ok(data) => *rest = data,
                Err(trailers) => {
                    if let Some(map) = trailers.trailers_ref().filter(|map| !is_ok(map)) {
                        call.sends_headers(kept_bytes(map));
                    }
                    return Poll::Ready(Some(Ok(trailers)));
                }
            }
            call.answers(rest.len());
            *buffer = Some(Arc::new(Buffer { bytes: rest.len(), call: Arc::clone(call) }));
        }
        let data = rest.split_to(rest.len().min(PIECE_BYTES));
        let of = if rest.is_empty() { buffer.take() } else { buffer.clone() };
        Poll::Ready(Some(Ok(Frame::data(
            of.map_or(Bytes::new(), |of| Bytes::from_owner(Piece { data, of })),
        ))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_empty() { self.body.size_hint() } else { SizeHint::default() }
    }
}

/// One allocation with bytes of an answer. It is freed once all pieces of it are.
struct Buffer {
    bytes: usize,
    call: Arc<CallAccount>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.call.answered(self.bytes);
    }
}

/// A piece of an answer that is not sent yet.
struct Piece {
    data: Bytes,
    of: Arc<Buffer>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.of.call.answer_moved(self.data.len());
    }
}
