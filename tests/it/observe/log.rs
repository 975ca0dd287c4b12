//! What the log of a running server tells of messages.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency_ledger::proto;

use super::{TRACE_ID, TRACEPARENT, lines};
use crate::harness::details::{acquired, claim, key};
use crate::process::{BINARY, Server, sqlite};

/// Those that are about messages: event, level, consumer, event type, trace.
fn events(log: &Path) -> Vec<[String; 5]> {
    let told = lines(log).into_iter().filter(|line| line.get("event").is_some());
    let word = |line: &serde_json::Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let names = ["event", "level", "consumer", "event_type", "trace_id"];
    told.map(|line| names.map(|name| word(&line, name))).collect()
}

#[tokio::test]
async fn the_log_tells_of_messages_what_a_person_may_want_to_know() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let settings = ["--log-format", "json", "--observe-listen", "off"];
    let server =
        Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, Stdio::from(file)).await;
    let mut client = server.client().await;
    let granted = acquired(client.claim(claim("billing", "1")).await.unwrap().get_ref());
    let complete = proto::CompleteRequest {
        key: key("billing", "1"),
        token: granted.token,
        result: "secret".into(),
        result_left_out: false,
        event_type: String::new(),
    };
    client.complete(complete).await.unwrap();
    for _ in 0..3 {
        let paid = proto::ClaimRequest { event_type: "paid".into(), ..claim("billing", "1") };
        let mut paid = tonic::Request::new(paid);
        paid.metadata_mut().insert("traceparent", TRACEPARENT.parse().unwrap());
        client.claim(paid).await.unwrap();
    }
    let other = proto::ClaimRequest { fingerprint: vec![2; 32].into(), ..claim("shipping", "1") };
    let first = proto::ClaimRequest { fingerprint: vec![1; 32].into(), ..claim("shipping", "1") };
    let held = acquired(client.claim(first).await.unwrap().get_ref());
    client.claim(other).await.unwrap();
    let fail = proto::FailRequest {
        key: key("shipping", "1"),
        token: held.token,
        kind: proto::FailureKind::Park.into(),
        error: "secret".into(),
        event_type: "sent".into(),
        ..proto::FailRequest::default()
    };
    let mut fail = tonic::Request::new(fail);
    fail.metadata_mut().insert("traceparent", TRACEPARENT.parse().unwrap());
    client.fail(fail).await.unwrap();
    // To look is no delivery: neither a duplicate, nor one that was parked.
    for consumer in ["billing", "shipping", "nobody"] {
        client.lookup(proto::LookupRequest { key: key(consumer, "1"), ..Default::default() }).await.unwrap();
    }
    let expected = [
        ["duplicate", "INFO", "billing", "paid", TRACE_ID],
        ["fingerprint_mismatch", "WARN", "shipping", "", ""],
        ["parked", "WARN", "shipping", "sent", TRACE_ID],
    ];
    let expected = expected.map(|line| line.map(str::to_owned));
    // On a machine that is busy a second may pass between two duplicates.
    let mut events = events(&log);
    events.dedup();
    assert_eq!(events, expected);
    let text = crate::harness::log_file::settled(&log);
    assert!(!text.contains("secret"), "no payload and no text of a consumer: {text}");
}

#[tokio::test]
async fn the_log_tells_the_errors_of_consumers_only_where_that_is_asked_for() {
    let fail = |token| proto::FailRequest {
        key: key("billing", "1"),
        token,
        kind: proto::FailureKind::Park.into(),
        error: "card 4711\nis lost".into(),
        event_type: "order.kept-nowhere".into(),
        ..proto::FailRequest::default()
    };
    for (more, told) in [(&[][..], 0), (&["--log-error-texts", "true"], 2)] {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let settings = [&["--log-format", "json", "--observe-listen", "off"], more].concat();
        let url = sqlite(folder.path());
        let server = Server::with(Command::new(BINARY), &url, &settings, Stdio::from(file)).await;
        let mut client = server.client().await;
        let order =
            || proto::ClaimRequest { event_type: "order.kept-nowhere".into(), ..claim("billing", "1") };
        let held = acquired(client.claim(order()).await.unwrap().get_ref());
        client.fail(fail(held.token)).await.unwrap();
        // A line of each kind a second.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        client.claim(order()).await.unwrap();
        let lines = lines(&log);
        let parked: Vec<_> = lines.iter().filter(|line| line["event"] == "parked").collect();
        assert_eq!(parked.len(), 2, "{lines:#?}");
        assert!(parked.iter().all(|line| line["cause"] == "CONSUMER"), "{lines:#?}");
        let errors = parked.iter().filter(|line| line["error"] == "card 4711\nis lost").count();
        assert_eq!(errors, told, "{more:?}: {lines:#?}");
        // The kind of a message is for counts and logs: no file of the store has it.
        for file in ["ledger.db", "ledger.db-wal"] {
            let bytes = std::fs::read(folder.path().join(file)).unwrap();
            assert!(!bytes.windows(12).any(|part| part == b"kept-nowhere"), "{file} has the event type");
        }
    }
}
