//! What metrics and log report of fields at fault, and of fields that were left out, cut or clamped.

use std::process::{Command, Stdio};

use bytes::Bytes;
use idempotency_ledger::proto;

use super::lines;
use crate::harness::details::{acquired, claim, key};
use crate::harness::server::{Kind, TestServer};
use crate::process::{BINARY, Server, sqlite};

#[tokio::test]
async fn the_log_names_consumer_field_and_bound_and_nothing_that_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let file = std::fs::File::create(&log).unwrap();
    let settings = ["--log-format", "json", "--observe-listen", "off"];
    let server =
        Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, Stdio::from(file)).await;
    let mut client = server.client().await;
    let long = proto::ClaimRequest { owner: "secret".repeat(100), ..claim("billing", "1") };
    client.claim(long).await.unwrap_err();
    let held = acquired(client.claim(claim("billing", "1")).await.unwrap().get_ref());
    let complete = proto::CompleteRequest {
        key: key("billing", "1"),
        token: held.token,
        result: Bytes::from("secret".repeat(10_000)),
        result_left_out: false,
        event_type: String::new(),
    };
    client.complete(complete).await.unwrap();
    let told: Vec<[String; 5]> = (lines(&log).into_iter().filter(|line| line.get("event").is_some()))
        .map(|line| {
            ["event", "level", "consumer", "field", "bound"]
                .map(|name| line[name].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    let expected = [
        ["invalid", "WARN", "billing", "owner", "has 600 bytes, must be at most 128 bytes"],
        ["corrected", "WARN", "billing", "result", "has 60000 bytes, at most 16384 are stored: left out"],
    ];
    assert_eq!(told, expected.map(|line| line.map(str::to_owned)));
    assert!(!std::fs::read_to_string(&log).unwrap().contains("secret"), "no payload");
}

#[tokio::test]
async fn what_was_left_out_cut_or_clamped_is_counted_by_field() {
    let mut server = TestServer::start(Kind::Sqlite).await;
    let month = prost_types::Duration { seconds: 31 * 86_400, nanos: 0 };
    let large = || Bytes::from(vec![7; 16_385]);
    let request = proto::ClaimRequest { event_type: "t".repeat(129), ..claim("c", "1") };
    let token = acquired(server.client.claim(request).await.unwrap().get_ref()).token;
    let key = || key("c", "1");
    let checkpoint = Some(large());
    let lease = Some(prost_types::Duration { seconds: -1, nanos: 0 });
    let renew = proto::RenewRequest { key: key(), token, checkpoint, lease, ..Default::default() };
    server.client.renew(renew).await.unwrap();
    let fail =
        proto::FailRequest { key: key(), token, kind: 77, retry_after: Some(month), ..Default::default() };
    server.client.fail(fail).await.unwrap();
    let release = proto::ReleaseRequest {
        key: key(),
        token,
        delay: Some(month),
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    server.client.release(release).await.unwrap_err();
    let complete = proto::CompleteRequest { key: key(), token, result: large(), ..Default::default() };
    server.client.complete(complete).await.unwrap();
    for field in ["result", "checkpoint", "event_type", "kind", "retry_after", "delay", "lease"] {
        let series = format!("idempotency_ledger_corrected_fields_total{{field=\"{field}\"}}");
        assert_eq!(server.metric(&series), Some(1.0), "{field}");
    }
    server.stop().await;
}
