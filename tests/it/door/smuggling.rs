//! Requests of HTTP/1.1 that two readers may take apart in two ways, and how connections end.

use std::time::{Duration, Instant};

use super::client::{Http1, request};
use super::{LEDGER, claim};
use crate::harness::server::{Kind, TestServer};

/// The head of a claim, without its end.
fn head() -> String {
    format!("POST {LEDGER}/Claim HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n")
}

#[tokio::test]
async fn a_request_that_hides_another_one_ends_its_connection() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    let body = claim("front");
    let length = body.len();
    let smuggled =
        String::from_utf8(request(&format!("{LEDGER}/Claim"), &[], claim("hidden").as_bytes())).unwrap();
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let rows: Vec<(&str, String, u16)> = vec![
        (
            "both lengths",
            format!("content-length: {length}\r\ntransfer-encoding: chunked\r\n\r\n{chunked}"),
            400,
        ),
        (
            "both, the other way round",
            format!("transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n{chunked}"),
            400,
        ),
        (
            "a length twice",
            format!("content-length: {length}\r\ncontent-length: {length}\r\n\r\n{body}"),
            400,
        ),
        ("two lengths", format!("content-length: {length}\r\ncontent-length: 0\r\n\r\n{body}"), 400),
        ("a list of lengths", format!("content-length: {length}, {length}\r\n\r\n{body}"), 400),
        ("a signed length", format!("content-length: +{length}\r\n\r\n{body}"), 400),
        (
            "a coding twice",
            format!("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n{chunked}"),
            400,
        ),
        ("another coding", format!("transfer-encoding: identity\r\n\r\n{chunked}"), 400),
        (
            "a folded header",
            format!("x: y\r\n content-length: 0\r\ncontent-length: {length}\r\n\r\n{body}"),
            400,
        ),
        ("a space before the colon", format!("content-length : {length}\r\n\r\n{body}"), 400),
        ("a bare line feed", format!("x: y\ncontent-length: {length}\r\n\r\n{body}"), 400),
        ("a second host", format!("host: localhost\r\ncontent-length: {length}\r\n\r\n{body}"), 400),
        ("a head that is too long", format!("x: {}\r\n\r\n", "y".repeat(8_192)), 431),
    ];
    for (what, rest, status) in rows {
        let mut connection = Http1::to(to).await;
        connection.send(format!("{}{rest}{smuggled}", head()).as_bytes()).await;
        let reply = connection.reply().await.unwrap_or_else(|| panic!("{what}: no answer"));
        assert_eq!((reply.status, reply.reason()), (status, String::new()), "{what}: {reply:?}");
        assert_eq!(reply.header("connection"), "close", "{what}");
        assert_eq!(reply.header("cache-control"), "no-store", "{what}");
        assert_eq!(connection.reply().await, None, "{what}: the connection goes on");
    }
    for first in ["POST / HTTP/1.0\r\n\r\n", "POST /\r\n\r\n"] {
        let mut connection = Http1::to(to).await;
        assert_eq!(connection.ask(first.as_bytes()).await.status, 505, "{first:?}");
        assert_eq!(connection.reply().await, None, "{first:?}");
    }
    for id in ["front", "hidden"] {
        let body = claim(id);
        let reply = Http1::to(to).await.ask(&request(&format!("{LEDGER}/Claim"), &[], body.as_bytes())).await;
        assert_eq!(reply.header("idempotency-ledger-advice"), "PROCESS", "{id} was claimed before");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_connection_carries_one_request_after_the_other() {
    let server = TestServer::start(Kind::Sqlite).await;
    let mut connection = Http1::to(server.http_address()).await;
    let path = format!("{LEDGER}/Claim");
    for id in ["1", "2", "3"] {
        let reply = connection.ask(&request(&path, &[], claim(id).as_bytes())).await;
        assert_eq!((reply.status, reply.header("connection")), (200, ""), "{reply:?}");
    }
    // Both are answered, in their order, and each once.
    let two =
        [request(&path, &[], claim("4").as_bytes()), request(&path, &[], claim("4").as_bytes())].concat();
    let first = connection.ask(&two).await;
    let second = connection.reply().await.unwrap();
    let advice = [first, second].map(|reply| reply.header("idempotency-ledger-advice").to_owned());
    assert_eq!(advice, ["PROCESS", "RETRY_LATER"]);
    // A body without a length is read to its end, and is the last.
    let body = claim("5");
    let chunked =
        format!("{}transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", head(), body.len());
    let reply = connection.ask(chunked.as_bytes()).await;
    assert_eq!((reply.status, reply.header("connection")), (200, "close"), "{reply:?}");
    assert_eq!(connection.reply().await, None);
    server.stop().await;
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_its_connection_and_an_idle_one_stays() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    let whole = request(&format!("{LEDGER}/Claim"), &[], claim("1").as_bytes());
    let (mut first, mut later, mut idle) = (Http1::to(to).await, Http1::to(to).await, Http1::to(to).await);
    assert_eq!(later.ask(&whole).await.status, 200);
    assert_eq!(idle.ask(&whole).await.status, 200);
    let since = Instant::now();
    first.send(b"POST / HTT").await;
    later.send(b"POST / HTT").await;
    assert_eq!(first.reply().await, None);
    assert_eq!(later.reply().await, None);
    let waited = since.elapsed();
    assert!((4..15).contains(&waited.as_secs()), "{waited:?}");
    assert_eq!(idle.ask(&whole).await.status, 200, "a connection between two requests owes nothing");
    assert!(waited > Duration::from_secs(4));
    server.stop().await;
}
