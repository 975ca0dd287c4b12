//! Validates HTTP/1.1 heads before hyper reads them, against request smuggling: where two parsers of one connection disagree
//! about the end of a request, the rest of its body is a separate request for one of them, and behind a trusted proxy such a
//! request brings a forged `x-forwarded-client-cert`. So every ambiguous head is refused, and ends the connection. hyper
//! accepts a Content-Length next to Transfer-Encoding, and drops the Content-Length.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, BytesMut};
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::io::poll_read_buf;

/// Maximum length of a head in bytes.
pub(in crate::listener) const HEAD_BYTES_MAX: usize = 8 * 1_024;
/// Time limit for the rest of a head, once it has begun.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 1_024;
/// How much is read after a refused head: closing a socket with unread bytes sends a reset, which can take the answer away
/// from its client.
const DISCARDED_BYTES_MAX: usize = 64 * 1_024;
/// What hyper reads in place of a refused head, so that it can write an answer.
const SUBSTITUTE_HEAD: &[u8] = b"POST / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// Why a head is refused; an extension of the request that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadHead(pub(crate) StatusCode, pub(crate) &'static str);

/// Where the validator leaves the reason of a refusal.
pub(in crate::listener) type Refusal = Arc<OnceLock<BadHead>>;

/// The bytes of a connection, of which each head is validated.
pub(in crate::listener) struct HeadValidator<S> {
    stream: S,
    state: ReadState,
    bytes: BytesMut,
    late: Option<Pin<Box<Sleep>>>,
    refusal: Refusal,
}

/// The state of the validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    Head,
    /// Bytes left of a validated head and of its body.
    Within(u64),
    /// A body without a length: this is the last request of its connection.
    Last,
    /// A head was refused; this many bytes may still be read, and are discarded.
    Refused(usize),
}

/// The length of the body that follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Of(u64),
    Chunked,
}

impl<S> HeadValidator<S> {
    pub(in crate::listener) fn new(stream: S, refusal: Refusal) -> HeadValidator<S> {
        HeadValidator { stream, state: ReadState::Head, bytes: BytesMut::new(), late: None, refusal }
    }

    /// Validates the buffered head; `false` if it is not whole yet.
    fn validate(&mut self) -> bool {
        // Old clients send an empty line before a request.
        if self.bytes.starts_with(b"\r\n") {
            self.bytes.advance(2);
        }
        let end = end_of_head(&self.bytes);
        let validated = match end {
            Some(end) if end <= HEAD_BYTES_MAX => {
                validated(&self.bytes[..end]).map(|body| (end as u64, body))
            }
            _ if self.bytes.len() >= HEAD_BYTES_MAX => Err(BadHead(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the head of a request may have 8192 bytes\n",
            )),
            _ => return false,
        };
        self.late = None;
        self.state = match validated {
            Ok((head, Body::Of(length))) => ReadState::Within(head.saturating_add(length)),
            Ok((_, Body::Chunked)) => ReadState::Last,
            Err(bad) => {
                let _first = self.refusal.set(bad);
                self.bytes = BytesMut::from(SUBSTITUTE_HEAD);
                ReadState::Refused(DISCARDED_BYTES_MAX)
            }
        };
        true
    }
}

impl<S: AsyncRead + Unpin> HeadValidator<S> {
    /// Reads more of a head; `false` at the end of the connection.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.bytes.is_empty() {
            self.late = None;
        } else {
            let late = self.late.get_or_insert_with(|| Box::pin(sleep(HEAD_WITHIN)));
            if late.as_mut().poll(context).is_ready() {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
        let room = HEAD_BYTES_MAX.saturating_sub(self.bytes.len()).min(READ_BYTES);
        let to = &mut (&mut self.bytes).limit(room);
        Poll::Ready(Ok(ready!(poll_read_buf(Pin::new(&mut self.stream), context, to))? > 0))
    }

    /// Passes validated bytes on.
    fn poll_validated(
        &mut self,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
        max: u64,
    ) -> Poll<io::Result<u64>> {
        let room = usize::try_from(max).unwrap_or(usize::MAX).min(to.remaining());
        if self.bytes.is_empty() {
            let read = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut to.limit(room)))?;
            return Poll::Ready(Ok(read as u64));
        }
        let now = room.min(self.bytes.len());
        to.put_slice(&self.bytes[..now]);
        self.bytes.advance(now);
        if self.bytes.is_empty() {
            self.bytes = BytesMut::new();
        }
        Poll::Ready(Ok(now as u64))
    }

    /// Discards what a client sends after a refused head.
    fn poll_discard(&mut self, context: &mut Context<'_>, mut left: usize) -> Poll<io::Result<()>> {
        let mut away = BytesMut::with_capacity(READ_BYTES);
        while left > 0 {
            away.clear();
            let read = ready!(poll_read_buf(Pin::new(&mut self.stream), context, &mut away))?;
            left = if read == 0 { 0 } else { left.saturating_sub(read) };
            self.state = ReadState::Refused(left);
        }
        // The answer ends the connection.
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadValidator<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            match this.state {
                ReadState::Head => {
                    if !this.validate() && !ready!(this.poll_head(context))? {
                        return Poll::Ready(Ok(()));
                    }
                }
                ReadState::Within(0) => this.state = ReadState::Head,
                ReadState::Within(left) => {
                    let read = ready!(this.poll_validated(context, to, left))?;
                    this.state = ReadState::Within(left - read);
                    return Poll::Ready(Ok(()));
                }
                ReadState::Last => return this.poll_validated(context, to, u64::MAX).map_ok(|_| ()),
                ReadState::Refused(_) if !this.bytes.is_empty() => {
                    return this.poll_validated(context, to, u64::MAX).map_ok(|_| ());
                }
                ReadState::Refused(left) => return this.poll_discard(context, left),
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadValidator<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Length of a head in bytes, with its empty line; `None` while it is not whole.
pub(in crate::listener) fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let window = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    // A line without CR is found only to be refused: otherwise its sender would wait for an answer.
    let crlf = window.windows(4).position(|four| four == b"\r\n\r\n").map(|place| place + 4);
    let lf = window.windows(2).position(|two| two == b"\n\n").map(|place| place + 2);
    crlf.into_iter().chain(lf).min()
}

/// The length of the body that follows a whole head, unless it is ambiguous.
fn validated(head: &[u8]) -> Result<Body, BadHead> {
    let bad = |text| Err(BadHead(StatusCode::BAD_REQUEST, text));
    let Some(head) = head.strip_suffix(b"\r\n\r\n") else { return bad("a line must end with CR and LF\n") };
    let mut lines = head.split(|byte| *byte == b'\n');
    let (mut lengths, mut codings, mut hosts) = (Vec::new(), Vec::new(), 0);
    let last = lines.clone().count() - 1;
    for (number, line) in (0..).zip(&mut lines) {
        let line = match line.strip_suffix(b"\r") {
            Some(line) => line,
            None if number == last => line,
            None => return bad("a line must end with CR and LF\n"),
        };
        if line.iter().any(|byte| matches!(byte, b'\r' | 0)) {
            return bad("a line has a character that no head has\n");
        }
        if number == 0 {
            if !line.ends_with(b" HTTP/1.1") {
                return Err(BadHead(StatusCode::HTTP_VERSION_NOT_SUPPORTED, "only HTTP/1.1 and HTTP/2\n"));
            }
            continue;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return bad("a header must stand in one line\n");
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return bad("a header has a name and a colon\n");
        };
        if colon == 0 || !line[..colon].iter().all(u8::is_ascii_graphic) {
            return bad("a name of a header has a character that no name has\n");
        }
        let (name, value) = (line[..colon].to_ascii_lowercase(), line[colon + 1..].trim_ascii());
        match name.as_slice() {
            b"content-length" => lengths.push(value),
            b"transfer-encoding" => codings.push(value),
            b"host" => hosts += 1,
            _ => {}
        }
    }
    if hosts != 1 {
        return bad("a request must have one Host\n");
    }
    match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Ok(Body::Of(0)),
        ([length], []) => match number(length) {
            Some(length) => Ok(Body::Of(length)),
            None => bad("Content-Length must be one number\n"),
        },
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
        ([], [_]) => bad("Transfer-Encoding must be chunked\n"),
        _ => bad("a request must have one Content-Length or one Transfer-Encoding\n"),
    }
}

fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    const FIRST: &str = "POST /a HTTP/1.1\r\nhost: a\r\n";

    fn of(headers: &str) -> Result<Body, u16> {
        validated(format!("{FIRST}{headers}\r\n").as_bytes()).map_err(|bad| bad.0.as_u16())
    }

    #[test]
    fn refuses_ambiguous_heads() {
        for (headers, expected) in [
            ("", Ok(Body::Of(0))),
            ("content-length: 12\r\n", Ok(Body::Of(12))),
            ("Content-Length:12\r\nx: y\r\n", Ok(Body::Of(12))),
            ("transfer-encoding: chunked\r\n", Ok(Body::Chunked)),
            ("Transfer-Encoding: Chunked\r\n", Ok(Body::Chunked)),
            ("content-length: 12\r\ntransfer-encoding: chunked\r\n", Err(400)),
            ("transfer-encoding: chunked\r\ncontent-length: 12\r\n", Err(400)),
            ("content-length: 12\r\ncontent-length: 12\r\n", Err(400)),
            ("content-length: 12, 12\r\n", Err(400)),
            ("content-length: +12\r\n", Err(400)),
            ("content-length: 0x12\r\n", Err(400)),
            ("content-length: \r\n", Err(400)),
            ("content-length: 99999999999999999999\r\n", Err(400)),
            ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", Err(400)),
            ("transfer-encoding: gzip, chunked\r\n", Err(400)),
            ("transfer-encoding: identity\r\n", Err(400)),
            ("x: y\r\n folded: z\r\n", Err(400)),
            ("x: y\r\n\tcontent-length: 3\r\n", Err(400)),
            ("x: y\ncontent-length: 3\r\n", Err(400)),
            ("x: y\rcontent-length: 3\r\n", Err(400)),
            ("x\0: y\r\n", Err(400)),
            ("no colon\r\n", Err(400)),
            ("transfer-encoding : chunked\r\n", Err(400)),
            (": y\r\n", Err(400)),
            ("host: b\r\n", Err(400)),
        ] {
            assert_eq!(of(headers), expected, "{headers:?}");
        }
        for (head, expected) in [
            ("POST /a HTTP/1.1\r\n\r\n", 400),
            ("POST /a HTTP/1.0\r\nhost: a\r\n\r\n", 505),
            ("POST /a\r\nhost: a\r\n\r\n", 505),
            ("POST /a HTTP/1.1\nhost: a\n\n", 400),
        ] {
            assert_eq!(validated(head.as_bytes()).map_err(|bad| bad.0.as_u16()), Err(expected), "{head:?}");
        }
    }

    /// All that a reader gets of these bytes, however they arrive, and the status of the refusal.
    fn read(bytes: &str, piece: usize) -> (String, Option<u16>) {
        let mut stream = in_pieces(bytes, piece);
        let refusal = Refusal::default();
        let mut heads = HeadValidator::new(&mut stream, Arc::clone(&refusal));
        let mut all = Vec::new();
        loop {
            let mut some = [0; 7];
            // After a refused head the reader is never ready.
            match futures_util::FutureExt::now_or_never(heads.read(&mut some)) {
                Some(Ok(0)) | None => break,
                Some(Ok(read)) => all.extend_from_slice(&some[..read]),
                Some(Err(error)) => panic!("{error}"),
            }
        }
        let refused = refusal.get().map(|bad| bad.0.as_u16());
        (String::from_utf8(all).expect("UTF-8"), refused)
    }

    /// Bytes that are ready in pieces of this size, and their end.
    fn in_pieces(bytes: &str, piece: usize) -> impl AsyncRead + Unpin {
        let pieces: Vec<io::Result<bytes::Bytes>> =
            bytes.as_bytes().chunks(piece).map(|piece| Ok(bytes::Bytes::copy_from_slice(piece))).collect();
        tokio_util::io::StreamReader::new(futures_util::stream::iter(pieces))
    }

    // On a runtime, for the time limit of a head.
    #[tokio::test]
    async fn validated_requests_pass_unchanged_and_nothing_passes_after_a_refused_head() {
        let good = format!("{FIRST}content-length: 5\r\n\r\nhello");
        let chunked = format!("{FIRST}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
        let bad = format!("{FIRST}content-length: 5\r\ncontent-length: 5\r\n\r\nhello");
        let instead = String::from_utf8(SUBSTITUTE_HEAD.to_vec()).expect("UTF-8");
        for (sent, expected, refused) in [
            (format!("{good}\r\n{good}"), format!("{good}{good}"), None),
            (format!("{good}{chunked}"), format!("{good}{chunked}"), None),
            // Whatever follows a body without length belongs to it, for this reader.
            (format!("{chunked}{bad}"), format!("{chunked}{bad}"), None),
            (format!("{good}{bad}{good}"), format!("{good}{instead}"), Some(400)),
            (format!("{FIRST}x: {}", "y".repeat(HEAD_BYTES_MAX)), instead.clone(), Some(431)),
        ] {
            for piece in [1, 3, 64, 100_000] {
                assert_eq!(read(&sent, piece), (expected.clone(), refused), "{sent:?} in pieces of {piece}");
            }
        }
    }
}
