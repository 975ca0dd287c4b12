//! How many entries there are, and how old they get, as the metrics tell it.

use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::Channel;

use super::{postgres, series, server_on};
use crate::harness::details::{acquired, claim, key};
use crate::process::sqlite;

#[tokio::test]
async fn entries_are_counted_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    entries_are_counted(&sqlite(folder.path())).await;
}

#[tokio::test]
async fn entries_are_counted_on_postgres() {
    let (_cluster, url) = postgres();
    entries_are_counted(&url).await;
}

/// Once a period, by whoever serves: what is there, how old it is, and what waits for a person.
async fn entries_are_counted(url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("ledger.toml");
    let rules =
        "[consumers.short]\nlease = \"1s\"\nreclaim_grace = \"0s\"\n[consumers.tried]\nmax_attempts = 2\n";
    std::fs::write(&config, rules).unwrap();
    let more = ["--count-every", "1s", "--config", config.to_str().unwrap()];
    let (server, at) = server_on(url, &more).await;
    let mut client = server.client().await;
    let token = async |client: &mut LedgerServiceClient<Channel>, consumer: &str, id: &str| {
        acquired(client.claim(claim(consumer, id)).await.unwrap().get_ref()).token
    };
    let fail = |consumer: &str, id: &str, token, kind: proto::FailureKind| proto::FailRequest {
        key: key(consumer, id),
        token,
        kind: kind.into(),
        ..proto::FailRequest::default()
    };
    token(&mut client, "billing", "held").await;
    for (id, kind) in [
        ("parked", proto::FailureKind::Park),
        ("parked too", proto::FailureKind::Park),
        ("failed", proto::FailureKind::Terminal),
        ("waits", proto::FailureKind::Retryable),
    ] {
        let token = token(&mut client, "billing", id).await;
        client.fail(fail("billing", id, token, kind)).await.unwrap();
    }
    let released = token(&mut client, "billing", "released").await;
    let release = proto::ReleaseRequest {
        key: key("billing", "released"),
        token: released,
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    client.release(release).await.unwrap();
    token(&mut client, "short", "expires").await;
    let tried = token(&mut client, "tried", "1").await;
    client.fail(fail("tried", "1", tried, proto::FailureKind::Retryable)).await.unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let seen = series(&at).await;
        let wrong: Vec<_> = [
            (r#"idempotency_ledger_entries{consumer="billing",state="in_progress"}"#, 1.0, 1.0),
            (r#"idempotency_ledger_entries{consumer="billing",state="parked"}"#, 2.0, 2.0),
            (r#"idempotency_ledger_entries{consumer="billing",state="failed_terminal"}"#, 1.0, 1.0),
            (r#"idempotency_ledger_entries{consumer="billing",state="failed_retryable"}"#, 1.0, 1.0),
            (r#"idempotency_ledger_entries{consumer="billing",state="received"}"#, 1.0, 1.0),
            (r#"idempotency_ledger_entries{consumer="billing",state="completed"}"#, 0.0, 0.0),
            (r#"idempotency_ledger_entries_oldest_seconds{consumer="billing",kind="claimable"}"#, 1.0, 20.0),
            (
                r#"idempotency_ledger_entries_oldest_seconds{consumer="billing",kind="in_progress"}"#,
                1.0,
                20.0,
            ),
            (r#"idempotency_ledger_entries_oldest_seconds{consumer="billing",kind="parked"}"#, 1.0, 20.0),
            (r#"idempotency_ledger_entries_oldest_seconds{consumer="billing",kind="expired"}"#, 0.0, 0.0),
            (r#"idempotency_ledger_entries_expired{consumer="short"}"#, 1.0, 1.0),
            (r#"idempotency_ledger_entries_oldest_seconds{consumer="short",kind="expired"}"#, 1.0, 20.0),
            (r#"idempotency_ledger_entries_near_exhaustion{consumer="tried"}"#, 1.0, 1.0),
            ("idempotency_ledger_entries_counted_timestamp_seconds", 1.7e9, 1e10),
            (r#"idempotency_ledger_stored_names{kind="consumer"}"#, 3.0, 10.0),
            (r#"idempotency_ledger_stored_names{kind="source"}"#, 1.0, 1.0),
            (r#"idempotency_ledger_stored_names{kind="principal"}"#, 1.0, 1.0),
        ]
        .into_iter()
        .filter(|(series, least, most)| {
            let value = seen.get(*series).copied().unwrap_or(-1.0);
            !(least..=most).contains(&&value)
        })
        .collect();
        if wrong.is_empty() {
            break;
        }
        assert!(Instant::now() < until, "never so: {wrong:?}, but {seen:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
