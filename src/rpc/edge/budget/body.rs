//! A request's body, followed message by message: what a message is long is taken from the budget before
//! any of it is kept.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use super::Call;
use crate::domain::Rejection;
use crate::rpc::wire::errors;
use crate::rpc::wire::reasons::During;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A flag, and four bytes of length.
const HEADER_BYTES: usize = 5;

pub(crate) struct Counted<B> {
    body: B,
    call: Arc<Call>,
    during: During,
    framing: Framing,
}

/// Where in its messages a body is.
struct Framing {
    header: [u8; HEADER_BYTES],
    /// How much of the header is there.
    known: usize,
    /// How much of the message is not.
    left: usize,
    /// A longer message is refused elsewhere, by its length.
    message_bytes_max: usize,
    /// Each message of a stream is done with when the next one comes.
    is_stream: bool,
}

impl<B> Counted<B> {
    pub(in crate::rpc) fn new(
        body: B,
        call: Arc<Call>,
        during: During,
        message_bytes_max: usize,
        is_stream: bool,
    ) -> Counted<B> {
        let framing = Framing { header: [0; HEADER_BYTES], known: 0, left: 0, message_bytes_max, is_stream };
        Counted { body, call, during, framing }
    }
}

impl Framing {
    /// Follows what came; takes the bytes of each message that begins in it.
    fn follow(&mut self, mut data: &[u8], call: &Call) -> Result<(), Rejection> {
        while !data.is_empty() {
            if self.left > 0 {
                let now = self.left.min(data.len());
                self.left -= now;
                data = &data[now..];
                continue;
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

    fn begin(&mut self, call: &Call) -> Result<(), Rejection> {
        let [_, a, b, c, d] = self.header;
        self.left = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX);
        if self.is_stream {
            call.give_back();
        }
        if self.left > self.message_bytes_max { Ok(()) } else { call.take(self.left) }
    }
}

impl<B> Body for Counted<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            Some(Ok(frame)) => frame,
        };
        if let Some(data) = frame.data_ref()
            && let Err(rejection) = this.framing.follow(data, &this.call)
        {
            let status: Status = errors::status(&rejection, this.during);
            return Poll::Ready(Some(Err(status.into())));
        }
        Poll::Ready(Some(Ok(frame)))
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
    use std::sync::atomic::Ordering;

    use super::super::ServerBudget;
    use super::*;
    use crate::metrics::Metrics;

    /// Follows the bytes in pieces of a size; what was taken in the end.
    fn taken(bytes: &[u8], piece: usize, is_stream: bool) -> Result<usize, Rejection> {
        let call = ServerBudget::new(10_000, 1_000, Metrics::new().expect("metrics")).connection().call(None);
        let mut framing = Counted::new((), Arc::clone(&call), During::Other, 600, is_stream).framing;
        for part in bytes.chunks(piece) {
            framing.follow(part, &call)?;
        }
        Ok(call.taken.load(Ordering::SeqCst))
    }

    fn message(length: usize) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(std::iter::repeat_n(1, length));
        bytes
    }

    #[test]
    fn the_length_is_taken_however_the_bytes_come() {
        let two = [message(300), message(0), message(200)].concat();
        for piece in [1, 2, 4, 5, 6, 7, 100, 1_000] {
            assert_eq!(taken(&two, piece, false).ok(), Some(500), "in pieces of {piece}");
            assert_eq!(
                taken(&two, piece, true).ok(),
                Some(200),
                "of a stream the last one, in pieces of {piece}"
            );
        }
        assert_eq!(taken(&message(300)[..5], 5, false).ok(), Some(300), "the length alone is enough");
        assert_eq!(taken(&message(300)[..4], 4, false).ok(), Some(0));
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_comes() {
        let three = [message(500), message(400), message(101)].concat();
        assert!(taken(&three, 64, false).is_err());
        assert_eq!(taken(&three, 64, true).ok(), Some(101));
        assert_eq!(taken(&message(601), 64, false).ok(), Some(0), "refused by its length elsewhere");
    }
}
