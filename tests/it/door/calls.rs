//! Calls and their answers: messages, errors, advice, time and size.

use idempotency_ledger::proto::{self, claim_response::Verdict};
use idempotency_ledger::rpc::Limits;
use prost::Message as _;
use serde_json::json;

use super::client::Http1;
use super::{ADMIN, LEDGER, call, claim};
use crate::harness::details;
use crate::harness::server::{Kind, Setup, TestServer};

#[tokio::test]
async fn a_message_goes_through_by_each_codec_and_each_http() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    for http in [1, 2] {
        let (path, id) = (format!("{LEDGER}/Claim"), format!("json-{http}"));
        let reply = call(http, to, &path, &[], claim(&id).as_bytes()).await;
        assert_eq!((reply.status, reply.header("content-type")), (200, "application/json"), "{reply:?}");
        assert_eq!(reply.header("idempotency-ledger-advice"), "PROCESS");
        assert_eq!(reply.header("cache-control"), "no-store");
        let granted = reply.json();
        assert_eq!(granted["advice"], "ADVICE_PROCESS");
        let token = granted["acquired"]["token"].as_str().unwrap().to_owned();
        // Another claim: the status says nothing, and the headers do.
        let reply = call(http, to, &path, &[], claim(&id).as_bytes()).await;
        assert_eq!((reply.status, reply.header("idempotency-ledger-advice")), (200, "RETRY_LATER"));
        assert!(reply.json().get("inProgress").is_some(), "{reply:?}");
        let wait: u64 = reply.header("idempotency-ledger-retry-after-ms").parse().unwrap();
        let seconds: u64 = reply.header("retry-after").parse().unwrap();
        assert!(wait > 0 && seconds == wait.div_ceil(1_000), "{reply:?}");
        let key = json!({ "consumer": "c", "source": "s", "id": id });
        let body = json!({ "key": key, "token": token, "result": "aGVsbG8=" }).to_string();
        let reply = call(http, to, &format!("{LEDGER}/Complete"), &[], body.as_bytes()).await;
        assert_eq!((reply.status, reply.header("idempotency-ledger-advice")), (200, "ACK"), "{reply:?}");
        let reply = call(http, to, &path, &[], claim(&id).as_bytes()).await;
        assert_eq!(reply.json()["completed"]["result"], "aGVsbG8=");

        let proto_type = [("content-type", "application/proto")];
        let bytes = details::claim("c", &format!("proto-{http}")).encode_to_vec();
        for verdict in ["PROCESS", "RETRY_LATER"] {
            let reply = call(http, to, &path, &proto_type, &bytes).await;
            assert_eq!((reply.status, reply.header("content-type")), (200, "application/proto"), "{reply:?}");
            assert_eq!(reply.header("idempotency-ledger-advice"), verdict);
            let answer = proto::ClaimResponse::decode(&reply.body[..]).unwrap();
            let acquired = matches!(answer.verdict, Some(Verdict::Acquired(_)));
            assert_eq!(acquired, verdict == "PROCESS", "{answer:?}");
        }
        let reply = call(http, to, &format!("{ADMIN}/ListPolicies"), &[], b"{}").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.header("idempotency-ledger-advice"), "", "a list advises nothing");
    }
    server.stop().await;
}

#[tokio::test]
async fn an_error_has_code_message_details_and_plain_headers() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    let unsound = r#"{"key":{"consumer":"c","source":"s","id":""}}"#;
    let stale = r#"{"key":{"consumer":"c","source":"s","id":"i"},"token":"7"}"#;
    let proto_type = [("content-type", "application/proto")];
    for http in [1, 2] {
        for (method, headers, body, status, code, reason, advice) in [
            ("Claim", &[][..], unsound.as_bytes(), 400, "invalid_argument", "INVALID_FIELD", "DEAD_LETTER"),
            ("Complete", &[], stale.as_bytes(), 404, "not_found", "ENTRY_NOT_FOUND", "RETRY_LATER"),
            // Garbage.
            ("Claim", &proto_type, &[0xff; 7], 400, "invalid_argument", "INVALID_FIELD", "RETRY_LATER"),
        ] {
            let reply = call(http, to, &format!("{LEDGER}/{method}"), headers, body).await;
            let said = (reply.status, reply.header("content-type"), reply.header("cache-control"));
            assert_eq!(said, (status, "application/json", "no-store"), "{method}: {reply:?}");
            let json = reply.json();
            assert_eq!(json["code"], code, "{method}");
            assert!(json["message"].as_str().is_some_and(|text| !text.is_empty()), "{method}");
            assert_eq!(json["details"][0]["type"], "google.rpc.ErrorInfo", "{method}");
            assert_eq!(json["details"][0]["debug"]["metadata"]["advice"], advice, "{method}");
            assert_eq!(reply.reason(), reason, "{method}");
            assert_eq!(reply.header("idempotency-ledger-reason"), reason, "{method}");
            assert_eq!(reply.header("idempotency-ledger-advice"), advice, "{method}");
            assert!(!reply.headers.iter().any(|(name, _)| name.starts_with("grpc-")), "{reply:?}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_name_that_no_field_has_is_refused_and_nothing_was_claimed() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    let path = format!("{LEDGER}/Claim");
    for (body, says) in [
        (
            r#"{"key":{"consumer":"c","source":"s","id":"i","replyRun":"r"}}"#,
            "key: unrecognized field name 'replyRun'",
        ),
        (
            r#"{"key":{"consumer":"c","source":"s","id":"i","id":"j"}}"#,
            "key: the field `id` stands there twice",
        ),
        (r#"{"key":{"consumer":"c","source":"s","id":"i"},"lease":"soon"}"#, "lease"),
        (r#"{"key":{"consumer":"c","source":"s","id":"i"}} {}"#, "trailing"),
        ("", "EOF"),
    ] {
        let reply = call(1, to, &path, &[], body.as_bytes()).await;
        let said = (reply.status, reply.reason(), reply.header("idempotency-ledger-advice").to_owned());
        let expected = (400, "INVALID_FIELD".to_owned(), "RETRY_LATER".to_owned());
        assert_eq!(said, expected, "{body}: the program is at fault, and no message");
        assert!(reply.json()["message"].as_str().unwrap().contains(says), "{body}: {reply:?}");
    }
    let reply = call(1, to, &path, &[], br#"{"key":{"consumer":"c","source":"s","id":"i"}}"#).await;
    assert_eq!(reply.header("idempotency-ledger-advice"), "PROCESS", "nothing was claimed before");
    server.stop().await;
}

#[tokio::test]
async fn streams_and_compressed_requests_are_unimplemented() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    for (method, headers) in [
        (format!("{ADMIN}/ImportEntries"), &[][..]),
        (format!("{ADMIN}/RedriveEntries"), &[("content-type", "application/connect+json")]),
        (format!("{LEDGER}/Claim"), &[("content-encoding", "gzip")]),
    ] {
        for http in [1, 2] {
            let reply = call(http, to, &method, headers, claim("i").as_bytes()).await;
            let said = (reply.status, reply.json()["code"].clone(), reply.reason());
            assert_eq!(said, (501, "unimplemented".into(), "UNIMPLEMENTED".to_owned()), "{method}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_timeout_of_connect_is_the_deadline() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    let path = format!("{LEDGER}/Claim");
    // The server waits for a body, and the client sends it only after others were answered.
    let waiting = async |timeout: &str, id: &str| {
        let body = claim(id);
        let (length, mut connection) = (body.len(), Http1::to(to).await);
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{timeout}\r\n\
             content-length: {length}\r\nexpect: 100-continue\r\n\r\n"
        );
        connection.send(head.as_bytes()).await;
        connection.is_asked_for_its_body().await;
        (connection, body)
    };
    let (mut connection, _unsent) = waiting("connect-timeout-ms: 50", "late").await;
    let reply = connection.reply().await.unwrap();
    let said = (reply.status, reply.json()["code"].clone(), reply.reason());
    assert_eq!(said, (504, "deadline_exceeded".into(), "DEADLINE_EXCEEDED".to_owned()));
    let (mut connection, body) = waiting("grpc-timeout: 0m", "in time").await;
    assert_eq!(call(1, to, &path, &[], claim("another").as_bytes()).await.status, 200);
    let reply = connection.ask(body.as_bytes()).await;
    assert_eq!(reply.status, 200, "a timeout of gRPC is none here: {reply:?}");
    let reply = call(1, to, &path, &[("connect-timeout-ms", "30000")], claim("b").as_bytes()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    for wrong in ["1s", "-1", "12345678901"] {
        let reply = call(1, to, &path, &[("connect-timeout-ms", wrong)], claim("c").as_bytes()).await;
        assert_eq!((reply.status, reply.reason()), (400, String::new()), "{wrong}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_request_beyond_its_bound_is_too_large_however_it_arrives() {
    let limits = Limits { batch_bytes: 4_096, ..Limits::default() };
    let server = TestServer::start_with(Kind::Sqlite, Setup { limits, ..Setup::default() }).await;
    let to = server.http_address();
    let path = format!("{LEDGER}/Claim");
    let large = claim(&"i".repeat(5_000));
    for http in [1, 2] {
        let reply = call(http, to, &path, &[], large.as_bytes()).await;
        assert_eq!((reply.status, reply.reason()), (400, "TOO_LARGE".to_owned()), "{reply:?}");
    }
    let mut connection = Http1::to(to).await;
    let head = format!("POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
    let chunk = format!("{:x}\r\n{large}\r\n", large.len());
    connection.send(format!("{head}transfer-encoding: chunked\r\n\r\n{chunk}0\r\n\r\n").as_bytes()).await;
    let reply = connection.reply().await.unwrap();
    assert_eq!((reply.status, reply.reason()), (400, "TOO_LARGE".to_owned()), "{reply:?}");
    // Announced, and refused before it is sent.
    let mut connection = Http1::to(to).await;
    connection
        .send(format!("{head}content-length: 1000000\r\nexpect: 100-continue\r\n\r\n").as_bytes())
        .await;
    let reply = connection.reply().await.unwrap();
    let said = (reply.status, reply.reason(), reply.header("connection").to_owned());
    assert_eq!(said, (400, "TOO_LARGE".to_owned(), "close".to_owned()));
    assert_eq!(connection.reply().await, None, "answered before the body was read: closed");
    server.stop().await;
}
