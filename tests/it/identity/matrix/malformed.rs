//! Credentials that are no header of HTTP/2: no RPC is called with them, whatever else is presented.

use idempotency_ledger::identity::Guard;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use super::credentials::{people, trust};
use super::requests::{Asked, request};
use super::rpcs::{Method, Way, ours};
use super::wire::call;
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::web_tokens::Signer;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A field of a header block that is kept in no table.
fn field(name: &str, value: &[u8]) -> Vec<u8> {
    assert!(name.len() < 127 && value.len() < 127, "a length of one byte");
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
    [&[0, length(name.as_bytes())], name.as_bytes(), &[length(value)], value].concat()
}

/// A whole call of a method with an `authorization` header, and an empty message.
fn whole_call(method: &Method, authorization: &[u8]) -> Vec<u8> {
    let path = method.path();
    // POST and http of the static table, and the path by its name there.
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend(path.as_bytes());
    block.extend(field("content-type", b"application/grpc"));
    block.extend(field("te", b"trailers"));
    block.extend(field("authorization", authorization));
    [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 0, &[]),
        frame(HEADERS, END_HEADERS, 1, &block),
        frame(DATA, END_STREAM, 1, &[0; 5]),
    ]
    .concat()
}

/// The type of the first frame that answers the call.
async fn first_answer(server: &TestServer, bytes: &[u8]) -> u8 {
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return GOAWAY;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        if [HEADERS, RST_STREAM, GOAWAY].contains(&head[3]) {
            return head[3];
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_control_character_in_a_credential_is_never_answered_at_any_rpc() {
    let people = people();
    let setup =
        Setup { guard: Guard::new(trust(&people, &Signer::new("k1"), &["10.0.0.0/8"])), ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let one = people.token("one");
    let mut rows = vec![(format!("Bearer {one}").into_bytes(), true)];
    for control in [0, 1, b'\n', b'\r', 0x1b, 0x7f] {
        rows.push(([b"Bearer ", one.as_bytes(), &[control]].concat(), false));
        rows.push(([&[control], b"Bearer ".as_slice(), one.as_bytes()].concat(), false));
    }
    for method in ours() {
        // Whether the stream or the connection ends is for the library of HTTP/2 to say.
        for (value, expected) in &rows {
            let answer = first_answer(&server, &whole_call(&method, value)).await;
            assert_eq!(
                answer == HEADERS,
                *expected,
                "{}: {:?}",
                method.path(),
                value.escape_ascii().to_string()
            );
        }
    }
    server.stop().await;
}

/// All headers of a call together may have 8 KiB.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_that_is_too_long_ends_the_call_at_each_rpc() {
    let people = people();
    let setup =
        Setup { guard: Guard::new(trust(&people, &Signer::new("k1"), &["127.0.0.0/8"])), ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let channel = raw::channel(&server).await;
    let valid = ("authorization", format!("Bearer {}", people.token("one")).into_bytes());
    for method in &ours() {
        for name in ["authorization", "x-forwarded-client-cert", "x-more"] {
            let mut headers = vec![(name, vec![b'a'; 9_000])];
            headers.extend((name != "authorization").then(|| valid.clone()));
            let message = request(method, &Asked::new("c", "there", Way::Usual));
            let answer = call(&channel, method, &headers, message).await;
            assert!(answer.code() != Code::Ok && answer.messages.is_empty(), "{}: {answer:?}", method.path());
            // A caller who is known would be told of the right that is missing.
            assert!(!answer.seen().contains("token:one"), "{}: {answer:?}", method.path());
        }
    }
    drop(channel);
    server.stop().await;
}
