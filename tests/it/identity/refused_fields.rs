//! Whose name a request is counted by that is refused for its fields.

use idempotency_ledger::domain::Policy;
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;

use super::{People, by, why};
use crate::harness::details::{claim, key};
use crate::harness::server::{Kind, Setup, TestServer};

fn claims(server: &TestServer, consumer: &str) -> f64 {
    let labels = format!("consumer=\"{consumer}\",event_type=\"\",verdict=\"rejected\"");
    server.metric(&format!("idempotency_ledger_claims_total{{{labels}}}")).unwrap_or_default()
}

fn completions(server: &TestServer, consumer: &str) -> f64 {
    let labels = format!("consumer=\"{consumer}\",operation=\"complete\",outcome=\"rejected\"");
    server.metric(&format!("idempotency_ledger_settlements_total{{{labels}}}")).unwrap_or_default()
}

#[tokio::test]
async fn refused_request_without_right_is_counted_as_other() {
    let people =
        People::new(&[("own", &[("billing", "claim settle")]), ("none", &[("else", "claim settle")])]);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup.with("billing", Policy::default())).await;
    let (own, none) = (people.token("own"), people.token("none"));
    let bad = || proto::ClaimRequest { claim_id: "7".into(), ..claim("billing", "1") };
    let early = || proto::CompleteRequest { key: key("billing", "1"), token: 0, ..Default::default() };
    for (token, own, other) in [(own, 1.0, 0.0), (none, 1.0, 1.0)] {
        // Every caller is told the fields at fault, and none whether the consumer exists.
        assert_eq!(why(server.client.claim(by(token, bad())).await), "INVALID_FIELD");
        assert_eq!(why(server.client.complete(by(token, early())).await), "INVALID_FIELD");
        assert_eq!((claims(&server, "billing"), claims(&server, "other")), (own, other));
        assert_eq!((completions(&server, "billing"), completions(&server, "other")), (own, other));
    }
    server.stop().await;
}

#[tokio::test]
async fn refused_requests_make_no_series_for_an_unknown_consumer() {
    let mut server = TestServer::start(Kind::Sqlite).await;
    let of = |consumer: &str| proto::ClaimRequest { claim_id: "7".into(), ..claim(consumer, "1") };
    server.client.claim(of("made up")).await.unwrap_err();
    // An unset variable: the key is at fault, and names no consumer.
    server.client.claim(of("")).await.unwrap_err();
    assert_eq!((claims(&server, "made up"), claims(&server, "other")), (0.0, 2.0));
    // Once it has an answer it is counted by its name, also where its id is at fault, alone and in a batch.
    server.client.claim(claim("made up", "1")).await.unwrap();
    server.client.claim(claim("made up", "")).await.unwrap_err();
    let requests = vec![of("made up"), claim("made up", "2")];
    server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap();
    assert_eq!((claims(&server, "made up"), claims(&server, "other")), (2.0, 2.0));
    let replay = proto::ClaimRequest {
        key: Some(proto::EntryKey { replay_run: "r".into(), ..claim("made up", "1").key.unwrap() }),
        ..of("made up")
    };
    server.client.claim(replay).await.unwrap_err();
    let series = r#"idempotency_ledger_replay_claims_total{consumer="made up",event_type="",replay="true",verdict="other"}"#;
    assert_eq!(server.metric(series), Some(1.0));
    assert_eq!(claims(&server, "made up"), 2.0);
    server.stop().await;
}
