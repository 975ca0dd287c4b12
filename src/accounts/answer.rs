//! The body of an answer: its bytes are held until the client has taken them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use super::call::{CallAccount, Who};
use super::connection::{ConnectionAccount, OpenCall};

/// An answer is handed to HTTP/2 in pieces of this size, one frame each: how much of a large answer a client has taken is
/// known by them, and HTTP/2 holds at most one piece beyond what the client's window allows.
const PIECE_BYTES: usize = 16 * 1_024;
/// What HTTP/2 adds to each header, by RFC 9113, where it defines `SETTINGS_MAX_HEADER_LIST_SIZE`.
const HEADER_OVERHEAD: usize = 32;

/// How many bytes headers keep in memory until they are sent: measured 1.6 to 2.4 times what HTTP/2 counts.
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

/// See the module. The call is under way for as long as this lives, or a piece of it.
pub(crate) struct Answer {
    body: Body,
    /// `None` if the call was refused before it had an account: then the answer has no body.
    call: Option<Arc<CallAccount>>,
    /// Bytes that are counted, and that HTTP/2 has not been given yet.
    rest: Bytes,
    /// The buffer of the rest; `None` if there is no rest.
    buffer: Option<Arc<Buffer>>,
}

impl Answer {
    /// The answer of a call that has an account.
    pub(crate) fn of(body: Body, call: Arc<CallAccount>) -> Answer {
        Answer { body, call: Some(call), rest: Bytes::new(), buffer: None }
    }

    /// The answer to a call without an account, whose body is charged to the address of its client; without a body where
    /// that may hold no more.
    pub(crate) fn of_stranger<B>(body: B, connection: &Arc<ConnectionAccount>, open: OpenCall) -> Answer
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        match CallAccount::admit(connection, open, &Who::Stranger, None, 0) {
            Ok(call) => Answer::of(Body::new(body), call),
            Err(_) => Answer::refused(Body::empty()),
        }
    }

    /// Another body in its place, with the same account.
    pub(crate) fn with<B>(self, body: B) -> Answer
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        Answer { body: Body::new(body), call: self.call, rest: Bytes::new(), buffer: None }
    }

    /// The answer of a call that was refused before it had an account.
    pub(crate) fn refused(body: Body) -> Answer {
        Answer { body, call: None, rest: Bytes::new(), buffer: None }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Answer { body, call, rest, buffer } = &mut *self;
        let Some(call) = call else { return Pin::new(body).poll_frame(context) };
        if rest.is_empty() {
            // HTTP/2 asks for the next frame before the client's window has room for it: what the client does not read is
            // counted from the beginning.
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

/// The bytes of an answer that were made at once. They are one piece of memory, which is free when all parts of it are.
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
