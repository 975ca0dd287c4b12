//! Calls that are answered before their bodies come. A proxy carries them beside everybody else's: its connection stays.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use idempotency_ledger::identity::NewToken;

use super::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, PING, RST_STREAM, frame, head, header};
use super::{Edge, PREFACE, SETTINGS};

/// More than the transport forgives a connection, though it takes each for an error only where many come at once.
const ROUNDS: u32 = 10;
const AT_ONCE: u32 = 200;

const GOAWAY: u8 = 7;
const ACK: u8 = 1;

/// The type, the flags and the payload of the next frame.
fn next(stream: &mut TcpStream) -> (u8, u8, Vec<u8>) {
    let mut header = [0; 9];
    stream.read_exact(&mut header).unwrap();
    let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
    stream.read_exact(&mut payload).unwrap();
    (header[3], header[4], payload)
}

fn connected(edge: &Edge) -> TcpStream {
    let mut stream = TcpStream::connect(&edge.server.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[PREFACE, SETTINGS].concat()).unwrap();
    stream
}

/// Reads until so many calls are answered as a whole.
fn answered(stream: &mut TcpStream, calls: u32) {
    let mut left = calls;
    while left > 0 {
        let (kind, flags, payload) = next(stream);
        assert!(kind != GOAWAY, "the connection ends: {:?}", String::from_utf8_lossy(&payload));
        assert!(kind != RST_STREAM, "a call was reset whose request was still to come");
        left -= u32::from([HEADERS, DATA].contains(&kind) && flags & END_STREAM != 0);
    }
}

#[tokio::test]
async fn bodies_that_come_behind_their_refusals_end_no_connection() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let tokens = file("tokens.toml", &format!("[tokens]\np = [{:?}]\n", NewToken::make("p").unwrap().hash));
    let all = "[[rights]]\nprincipal = \"token:*\"\nconsumers = [\"*\"]\nmay = [\"claim\"]\n";
    let rights = file("rights.toml", all);
    let unknown =
        [&[0x83, 0x86][..], &header(":path", b"/x.Y/Z"), &header("content-type", b"application/grpc")];
    let text = [&[0x83, 0x86, 0x84][..], &header("content-type", b"text/plain")];
    let (unknown, text) = (unknown.concat(), text.concat());
    let rows = [
        ("no credential", vec!["--tokens-file", &tokens, "--rights-file", &rights], head()),
        ("no such method", vec![], unknown),
        ("no gRPC", vec![], text),
    ];
    for (what, settings, head) in rows {
        println!("{what}");
        let edge = Edge::start(&settings).await;
        let mut stream = connected(&edge);
        for round in 0..ROUNDS {
            let each = |make: &dyn Fn(u32) -> Vec<u8>| -> Vec<u8> {
                (0..AT_ONCE).flat_map(|number| make(2 * (round * AT_ONCE + number) + 1)).collect()
            };
            stream.write_all(&each(&|id| frame(HEADERS, END_HEADERS, id, &head))).unwrap();
            answered(&mut stream, AT_ONCE);
            stream.write_all(&each(&|id| frame(DATA, END_STREAM, id, &[0; 5]))).unwrap();
        }
        stream.write_all(&frame(PING, 0, 0, &[7; 8])).unwrap();
        loop {
            let (kind, flags, payload) = next(&mut stream);
            assert!(kind != GOAWAY, "{what}: {:?}", String::from_utf8_lossy(&payload));
            assert!(kind != RST_STREAM, "{what}: a call was reset whose request is here");
            if kind == PING && flags == ACK {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_body_that_never_ends_is_not_waited_for() {
    let edge = Edge::start(&[]).await;
    let mut stream = connected(&edge);
    let text = [&[0x83, 0x86, 0x84][..], &header("content-type", b"text/plain")].concat();
    stream.write_all(&frame(HEADERS, END_HEADERS, 1, &text)).unwrap();
    answered(&mut stream, 1);
    let at = Instant::now();
    while next(&mut stream).0 != RST_STREAM {}
    assert!(at.elapsed() < Duration::from_secs(10), "{:?}", at.elapsed());
}
