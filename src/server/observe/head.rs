//! Reads the head of a request before HTTP takes over: until it is complete, its connection may be evicted.

use std::io::{self, ErrorKind, Read as _};
use std::time::Duration;

use bytes::BytesMut;
use socket2::SockRef;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::permits::{Eviction, Permit};

/// How long a client may take to send the head of its request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Maximum length of a head in bytes. A longer one counts as complete here, and HTTP refuses it.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1_024;
const READ_BYTES: usize = 1_024;

/// How reading a head ended.
pub(super) enum Head {
    /// All bytes that were read.
    Whole(BytesMut),
    /// The connection was evicted: another one needs its permit.
    Evicted,
    /// The client disconnected, or did not send the head in time.
    Never,
}

/// Reads until the head is complete; otherwise the permit is released.
pub(super) async fn head(
    stream: &mut TcpStream,
    permit: Permit,
    eviction: Eviction,
) -> (Head, Option<Permit>) {
    let mut bytes = BytesMut::new();
    let reading = async {
        let mut looked_at = 0;
        loop {
            bytes.reserve(READ_BYTES);
            if stream.read_buf(&mut bytes).await.is_ok_and(|read| read > 0) {
                if is_whole(&bytes, looked_at) {
                    return true;
                }
                looked_at = bytes.len();
            } else {
                return false;
            }
        }
    };
    let decided = tokio::select! {
        biased;
        whole = timeout(HEAD_WITHIN, reading) => {
            if whole != Ok(true) {
                return (Head::Never, None);
            }
            permit.keep();
            return (Head::Whole(bytes), Some(permit));
        }
        asked = eviction => asked,
    };
    // A request that has arrived must not be evicted because the runtime has not polled its bytes yet.
    let whole = read_arrived(stream, &mut bytes).is_ok() && is_whole(&bytes, 0);
    let permit = if whole { Some(permit) } else { None };
    drop(decided);
    (if whole { Head::Whole(bytes) } else { Head::Evicted }, permit)
}

/// Reads what has arrived on a connection, without blocking.
fn read_arrived(stream: &TcpStream, to: &mut BytesMut) -> io::Result<()> {
    let socket = SockRef::from(stream);
    let mut some = [0; READ_BYTES];
    while to.len() < HEAD_BYTES_MAX {
        match (&*socket).read(&mut some) {
            Ok(0) => break,
            Ok(read) => to.extend_from_slice(&some[..read]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the head ends within these bytes, by an empty line after others. The bytes before `looked_at` were checked already.
fn is_whole(bytes: &[u8], looked_at: usize) -> bool {
    if bytes.len() >= HEAD_BYTES_MAX {
        return true;
    }
    // Empty lines before the request line are ignored.
    let Some(start) = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else { return false };
    let new = &bytes[start.max(looked_at.saturating_sub(2))..];
    new.windows(2).any(|two| two == b"\n\n") || new.windows(3).any(|three| three == b"\n\r\n")
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::super::permits::Permits;
    use super::*;

    #[test]
    fn is_whole_after_empty_line() {
        for whole in
            ["GET / HTTP/1.1\r\nhost: a\r\n\r\n", "GET / HTTP/1.1\n\n", "\r\n\r\nGET / HTTP/1.1\r\n\r\n"]
        {
            let bytes = whole.as_bytes();
            for cut in 0..bytes.len() {
                let half = &bytes[..cut];
                assert!((0..=cut).all(|looked_at| !is_whole(half, looked_at)), "{half:?}");
            }
            assert!((0..bytes.len()).all(|looked_at| is_whole(bytes, looked_at)), "{whole:?}");
        }
        assert!(is_whole(&[b'\n'; HEAD_BYTES_MAX], 0), "longer than any head");
    }

    #[tokio::test]
    async fn read_arrived_takes_what_is_there_up_to_one_head() {
        for (sent, closes, taken) in
            [(0, false, 0), (0, true, 0), (3, false, 3), (3, true, 3), (20_000, false, HEAD_BYTES_MAX)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("its address");
            let mut client = std::net::TcpStream::connect(address).expect("a connection");
            std::io::Write::write_all(&mut client, &vec![b'a'; sent]).expect("it is sent");
            let open = if closes { None } else { Some(client) };
            let (stream, _) = listener.accept().await.expect("a connection");
            let mut bytes = BytesMut::new();
            read_arrived(&stream, &mut bytes).expect("a sound connection");
            assert_eq!(bytes.len(), taken, "{sent} bytes, closed: {closes}");
            drop(open);
        }
    }

    /// The limit is on the time of the whole head, not on the time since its last byte.
    #[tokio::test]
    async fn head_that_comes_byte_by_byte_ends_with_the_limit() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let mut client = std::net::TcpStream::connect(address).expect("a connection");
        let (mut stream, from) = listener.accept().await.expect("a connection");
        let (permit, eviction) = Permits::new(1).enter(from.ip()).await.expect("a place");
        // Each byte comes within the limit, and the last one long after it.
        let slow = async {
            for _ in 0..12 {
                std::io::Write::write_all(&mut client, b"G").expect("it is sent");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let (head, permit) = tokio::select! {
            ended = head(&mut stream, permit, eviction) => ended,
            () = slow => panic!("a head of one byte a second has no end after 12 s"),
        };
        assert!(matches!(head, Head::Never) && permit.is_none());
    }

    /// The runtime gets no chance to notice that bytes have arrived.
    #[tokio::test]
    async fn head_evicts_half_request_not_arrived_one() {
        for (sent, stays) in
            [("GET /livez HTTP/1.1\r\n\r\n", true), ("GET /livez HTTP/1.1\r\n", false), ("", false)]
        {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("its address");
            let mut client = std::net::TcpStream::connect(address).expect("a connection");
            std::io::Write::write_all(&mut client, sent.as_bytes()).expect("it is sent");
            let (mut stream, from) = listener.accept().await.expect("a connection");
            let (permit, _unasked) = Permits::new(1).enter(from.ip()).await.expect("a place");
            let ((ask, eviction), (decided, mut is_decided)) = (oneshot::channel(), oneshot::channel());
            ask.send(decided).expect("it is asked");
            let (head, permit) = head(&mut stream, permit, eviction).await;
            assert_eq!((matches!(head, Head::Whole(_)), permit.is_some()), (stays, stays), "{sent:?}");
            assert_eq!(matches!(head, Head::Evicted), !stays, "{sent:?}");
            assert_eq!(is_decided.try_recv(), Err(oneshot::error::TryRecvError::Closed), "{sent:?}");
        }
    }
}
