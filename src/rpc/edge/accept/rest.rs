//! The rest of a request that was answered before it was there. A stream whose end nobody waits for is reset, and what
//! arrives on a stream that is forgotten counts as its client's error: with too many of them the transport ends the
//! connection, and the calls of everybody behind the same proxy with it. So the rest is read, and thrown away.

use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::open::Open;

/// How much is read of such a request, and for how long; the stream of one that goes on after that is reset. It is more
/// than the largest batch has by default, and clients stop as soon as they have read their answer.
const REST_BYTES_MAX: usize = 4 << 20;
const REST_WITHIN: Duration = Duration::from_secs(1);

/// The body of a request, which is read to its end whoever drops it.
pub(crate) struct Whole<B: Rest> {
    /// Until it is dropped.
    body: Option<B>,
    open: Open,
}

/// A body that a task of its own can read.
pub(crate) trait Rest: Body<Data = Bytes> + Unpin + Send + 'static {}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Rest for B {}

impl<B: Rest> Whole<B> {
    pub(super) fn new(body: B, open: Open) -> Whole<B> {
        Whole { body: Some(body), open }
    }
}

impl<B: Rest> Body for Whole<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl<B: Rest> Drop for Whole<B> {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else { return };
        let mut read = 0;
        // Most requests are here as a whole by now, and need no task.
        if poll_rest(&mut body, &mut read, &mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        // The call is open for as long: of those that their clients take back too there are only so many.
        let held = self.open.hold();
        runtime.spawn(async move {
            let rest = std::future::poll_fn(|context| poll_rest(&mut body, &mut read, context));
            let _in_time = timeout(REST_WITHIN, rest).await;
            drop(held);
        });
    }
}

/// Ready at the end of the body, or when enough of it was read.
fn poll_rest(body: &mut impl Rest, read: &mut usize, context: &mut Context<'_>) -> Poll<()> {
    while *read < REST_BYTES_MAX {
        match ready!(Pin::new(&mut *body).poll_frame(context)) {
            Some(Ok(frame)) => *read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => break,
        }
    }
    Poll::Ready(())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Pieces of a body, and then its end, or nothing more yet.
    struct Pieces(VecDeque<usize>, bool);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            match (self.0.pop_front(), self.1) {
                (Some(bytes), _) => Poll::Ready(Some(Ok(Frame::data(vec![0; bytes].into())))),
                (None, true) => Poll::Ready(None),
                (None, false) => Poll::Pending,
            }
        }
    }

    #[test]
    fn a_rest_is_read_to_its_end_or_to_its_bound() {
        const MOST: usize = REST_BYTES_MAX;
        let rows = [
            ("the end is here", vec![5, 0, 7], true, true, 12),
            ("more may come", vec![5, 7], false, false, 12),
            ("as much as is read", vec![MOST - 1, 1, 1], false, true, MOST),
            ("one piece is larger than that", vec![MOST + 9, 1], false, true, MOST + 9),
        ];
        for (what, pieces, ended, is_ready, bytes) in rows {
            let mut read = 0;
            let mut body = Pieces(pieces.into(), ended);
            let polled = poll_rest(&mut body, &mut read, &mut Context::from_waker(Waker::noop()));
            assert_eq!((polled.is_ready(), read), (is_ready, bytes), "{what}");
        }
    }
}
