//! Request bodies in pieces.

use std::collections::VecDeque;
use std::net::IpAddr;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::accounts::limits::CALL_BYTES;
use crate::accounts::{CallOwner, for_tests};

fn call() -> Arc<CallAccount> {
    let connection = for_tests::connection();
    let open = OpenCall::begin(&connection);
    CallAccount::admit(&connection, open, &CallOwner::Stranger, None, 0).expect("it passes")
}

fn shape(is_stream: bool) -> Shape {
    if is_stream { Shape::Messages } else { Shape::Message }
}

/// Parses the bytes in pieces of a size; returns the bytes that the last message has taken.
fn taken(bytes: &[u8], piece: usize, is_stream: bool) -> Result<usize, Rejection> {
    let call = call();
    let mut framing = Framing::new(600, shape(is_stream));
    for part in bytes.chunks(piece) {
        framing.follow(part, &call)?;
    }
    Ok(call.state().request_bytes() - CALL_BYTES)
}

fn message(length: usize) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend(std::iter::repeat_n(1, length));
    bytes
}

#[test]
fn bytes_are_taken_as_they_arrive() {
    let stream = [message(300), message(0), message(200)].concat();
    for piece in [1, 2, 4, 5, 6, 7, 100, 1_000] {
        let last = taken(&stream, piece, true).ok();
        assert_eq!(last, Some(200), "of a stream those of the last message, in pieces of {piece}");
        assert_eq!(taken(&message(300), piece, false).ok(), Some(300), "in pieces of {piece}");
    }
    assert_eq!(taken(&message(300)[..5], 5, false).ok(), Some(0), "a length alone takes nothing");
    assert_eq!(taken(&message(300)[..105], 5, false).ok(), Some(100));
    assert_eq!(taken(&message(601), 64, false).ok(), Some(0), "refused by its length elsewhere");
}

#[test]
fn a_unary_call_has_one_message() {
    let refused = taken(&[message(3), message(0)].concat(), 64, false).expect_err("two messages");
    assert_eq!(refused.reason, crate::domain::Reason::InvalidField);
    assert!(taken(&[message(3), message(0)].concat(), 64, true).is_ok());
}

/// The HTTP listener takes a message without a length before it, byte by byte.
#[test]
fn a_bare_message_is_counted_as_it_arrives_and_refused_beyond_its_bound() {
    for piece in [1, 7, 599, 600, 1_000] {
        for (bytes, fits) in [(0, true), (1, true), (599, true), (600, true), (601, false)] {
            let call = call();
            let mut framing = Framing::new(600, Shape::Bare);
            let followed = vec![1; bytes].chunks(piece).try_for_each(|part| framing.follow(part, &call));
            assert_eq!(followed.is_ok(), fits, "{bytes} in pieces of {piece}");
            assert!(framing.is_owed(), "its end is owed");
            let taken = call.state().request_bytes() - CALL_BYTES;
            assert_eq!(taken, bytes.min(600), "{bytes} in pieces of {piece}");
        }
    }
    let framing = Framing::new(600, Shape::Bare);
    let announced = [0, 600, 601, u64::MAX].map(|bytes| framing.announced(bytes).is_ok());
    assert_eq!(announced, [true, true, false, false]);
    assert!(
        Framing::new(600, Shape::Message).announced(u64::MAX).is_ok(),
        "the length stands before the message"
    );
}

#[test]
fn a_client_owes_bytes_within_a_message_and_of_a_unary_call() {
    for (bytes, is_stream, owed) in [
        (&[][..], false, true),
        (&[], true, false),
        (&[0, 0], true, true),
        (&message(3)[..6], true, true),
        (&message(3), true, false),
        (&message(3), false, true),
    ] {
        let mut framing = Framing::new(600, shape(is_stream));
        framing.follow(bytes, &call()).expect("it fits");
        assert_eq!(framing.is_owed(), owed, "{bytes:?} {is_stream}");
    }
}

#[test]
fn a_refused_body_returns_its_bytes() {
    let limits = crate::accounts::AccountLimits { connection_bytes_max: 8_000, ..for_tests::LIMITS };
    let accounts = for_tests::accounts(limits);
    let address = IpAddr::from([192, 0, 2, 1]);
    let connection = ConnectionAccount::new(&accounts, address, CancellationToken::new());
    let admit =
        || CallAccount::admit(&connection, OpenCall::begin(&connection), &CallOwner::Stranger, None, 0);
    let call = admit().expect("it fits");
    let mut framing = Framing::new(60_000, Shape::Message);
    let refused = framing.follow(&message(5_000), &call).expect_err("it does not fit");
    assert!(refused.message.contains("8000 bytes (connection_bytes_max)"), "{}", refused.message);
    drop(call);
    assert_eq!((accounts.request_bytes()(), connection.open().calls()), (0, 0));
}

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
fn a_body_is_drained_to_its_end_or_to_the_bound() {
    const MOST: usize = DRAINED_BYTES_MAX;
    let rows = [
        ("the end is here", vec![5, 0, 7], true, true, 12),
        ("more may come", vec![5, 7], false, false, 12),
        ("as much as is read", vec![MOST - 1, 1, 1], false, true, MOST),
        ("one piece is larger than that", vec![MOST + 9, 1], false, true, MOST + 9),
    ];
    for (what, pieces, ended, is_ready, bytes) in rows {
        let mut read = 0;
        let mut body = Pieces(pieces.into(), ended);
        let polled = poll_drain(&mut body, &mut read, &mut Context::from_waker(Waker::noop()));
        assert_eq!((polled.is_ready(), read), (is_ready, bytes), "{what}");
    }
}
