//! The start of a connection: what the client must have sent before HTTP state is allocated for it.

use std::io;

use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::options::Protocols;
use crate::common::log_limit::warn_once_a_second;
use crate::identity::{Peer, Tls};
use crate::listener::io::tls_or_tcp::TlsOrTcp;
use crate::listener::protocol::http1_heads::{HEAD_BYTES_MAX, end_of_head};

/// The first bytes of each HTTP/2 client. A SETTINGS frame follows, which belongs to the preface.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The first bytes of each TLS client: a record of the handshake, of TLS 1.0 or later. No HTTP begins like this.
const TLS_RECORD: [u8; 2] = [0x16, 0x03];
const FRAME_HEADER_BYTES: usize = 9;
const SETTINGS: u8 = 4;
/// A larger SETTINGS frame is not awaited: HTTP/2 refuses it.
const SETTINGS_BYTES_MAX: usize = 16_384;

/// A connection after its handshake.
pub(super) struct ReadyConnection {
    /// Whether it is an HTTP/1.1 connection, on a listener that accepts those.
    pub(super) http1: bool,
    pub(super) socket: TlsOrTcp,
    pub(super) peer: Peer,
    pub(super) read_before: BytesMut,
}

/// The TLS handshake, if the listener has TLS, and the HTTP/2 preface or the first HTTP/1.1 head.
pub(super) async fn perform(
    stream: TcpStream,
    from: IpAddr,
    tls: Option<Arc<Tls>>,
    protocols: Protocols,
) -> io::Result<ReadyConnection> {
    let mut peer = Peer::at(from);
    let mut socket = match tls {
        None => {
            let mut first = [0; 2];
            // Its first bytes stay in the socket: HTTP refuses them, by which the client sees that no TLS is here.
            if stream.peek(&mut first).await? == first.len() && first == TLS_RECORD {
                warn_once_a_second!(
                    %from,
                    "a client begins TLS on a listener without it, and is refused: http:// is right there"
                );
            }
            TlsOrTcp::Plain(stream)
        }
        Some(tls) => {
            let config = match protocols {
                Protocols::Grpc => &tls.config,
                Protocols::Http => &tls.http_config,
            };
            let stream = TlsAcceptor::from(Arc::clone(config)).accept(stream).await.map_err(refused)?;
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
            peer.chain = chain.iter().map(|one| one.clone().into_owned()).collect();
            TlsOrTcp::Tls(Box::new(stream))
        }
    };
    let read_before = read(&mut socket, protocols).await?;
    let http1 = protocols == Protocols::Http && !begins_as_http2(&read_before);
    Ok(ReadyConnection { http1, socket, peer, read_before })
}

/// A client that sends plain text to a listener with TLS: its operator must be able to see why.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Mismatch(&'static str);

fn mismatch(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Mismatch(text))
}

/// The error of a TLS handshake, as a mismatch if the client has sent no TLS.
fn refused(error: io::Error) -> io::Error {
    use rustls::{Error, InvalidMessage};
    match error.get_ref().and_then(|inner| inner.downcast_ref()) {
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            mismatch("the client sends plain text, and this listener has TLS: https:// is right here")
        }
        Some(_) | None => error,
    }
}

impl Mismatch {
    /// Whether this is what ended a handshake.
    pub(super) fn is(error: &io::Error) -> bool {
        matches!(error.get_ref(), Some(inner) if inner.is::<Mismatch>())
    }
}

/// Reads until the preface is whole, or until the bytes cannot be a preface; HTTP/2 then reports the error to the client.
/// Returns all bytes that were read.
async fn read(stream: &mut (impl AsyncRead + Unpin), protocols: Protocols) -> io::Result<BytesMut> {
    let mut bytes = BytesMut::with_capacity(256);
    while !is_decided(&bytes) || protocols == Protocols::Http && !begins_as_http2(&bytes) && !is_head(&bytes)
    {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(bytes)
}

/// Whether these bytes are the beginning of an HTTP/2 preface, or may become it.
fn begins_as_http2(bytes: &[u8]) -> bool {
    PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())])
}

/// Whether these bytes contain a whole HTTP/1.1 head, or more bytes than a head may have. Skips one empty line before it.
fn is_head(bytes: &[u8]) -> bool {
    bytes.len() >= HEAD_BYTES_MAX || end_of_head(bytes.strip_prefix(b"\r\n").unwrap_or(bytes)).is_some()
}

/// Whether HTTP/2 can take over.
fn is_decided(bytes: &[u8]) -> bool {
    let (head, rest) = bytes.split_at(bytes.len().min(PREFACE.len()));
    if !PREFACE.starts_with(head) {
        return true;
    }
    let Some((header, payload)) = rest.split_at_checked(FRAME_HEADER_BYTES) else { return false };
    let &[high, middle, low, kind, ..] = header else { return false };
    let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
    kind != SETTINGS || length > SETTINGS_BYTES_MAX || payload.len() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn plain_text_to_tls_and_the_reverse_are_mismatches() {
        use rustls::pki_types::ServerName;
        use tokio::io::AsyncWriteExt as _;
        use tokio::net::TcpListener;

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let ready = async |send: Vec<u8>| {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(&send).await.unwrap();
            let (stream, from) = listener.accept().await.unwrap();
            perform(stream, from.ip(), None, Protocols::Grpc).await.err()
        };
        // What a client of TLS sends first.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let (mut hello, mut client) =
            (Vec::new(), rustls::ClientConnection::new(Arc::new(config), name).unwrap());
        client.write_tls(&mut hello).unwrap();
        assert!(hello.starts_with(&TLS_RECORD));
        assert!(ready(hello).await.is_none(), "HTTP refuses it, so that the client is answered");
        let whole = [PREFACE, &[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]].concat();
        assert!(ready(whole).await.is_none(), "HTTP/2 as it should be");
        // What the TLS of this listener makes of plain text.
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()).into();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        for (sent, is_mismatch) in [
            (&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], true),
            (b"GET / HTTP/1.1\r\n\r\n", true),
            (b"", false),
        ] {
            let (mut client, server) = tokio::io::duplex(1_024);
            client.write_all(sent).await.unwrap();
            client.shutdown().await.unwrap();
            let error =
                TlsAcceptor::from(Arc::new(tls.clone())).accept(server).await.map_err(refused).unwrap_err();
            assert_eq!(Mismatch::is(&error), is_mismatch, "{sent:?}: {error}");
        }
    }

    #[test]
    fn a_preface_is_whole_with_its_settings() {
        let frame = |length: u8, kind: u8| [&[0, 0, length, kind, 0, 0, 0, 0, 0][..], &[7; 12]].concat();
        let whole = [PREFACE, &frame(12, SETTINGS)].concat();
        for cut in 0..whole.len() {
            assert!(!is_decided(&whole[..cut]), "after {cut} bytes");
        }
        assert!(is_decided(&whole));
        assert!(is_decided(&[&whole[..], b"and a call"].concat()));
    }

    #[test]
    fn reads_a_whole_http1_head() {
        let head = b"\r\nPOST / HTTP/1.1\r\nhost: a\r\n\r\n";
        assert!((0..head.len()).all(|cut| !is_head(&head[..cut])));
        assert!(is_head(head) && !begins_as_http2(head));
        assert!(is_head(&[b'a'; HEAD_BYTES_MAX]), "longer than any head");
        assert!(begins_as_http2(b"PR") && !begins_as_http2(b"PO"));
    }

    #[test]
    fn does_not_wait_for_what_cannot_be_a_preface() {
        assert!(is_decided(b"GET / HTTP/1.1\r\n"));
        assert!(is_decided(b"PRI * HTTP/1"));
        assert!(is_decided(&[PREFACE, &[0, 0, 9, 1, 0, 0, 0, 0, 1]].concat()), "a frame of another type");
        assert!(is_decided(&[PREFACE, &[1, 0, 0, SETTINGS, 0, 0, 0, 0, 0]].concat()), "too large");
    }
}
