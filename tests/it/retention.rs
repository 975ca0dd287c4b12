//! The purge: at least as long as promised, never what waits for a person, and nothing that was
//! purged comes back as new inside the window.

use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::{Key, OnExpiry, Policy, Span};
use idempotency_ledger::proto;

use crate::harness::details::{acquired, claim, key};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer};

on_both_stores!(
    each_state_is_kept_for_its_retention,
    a_purged_key_is_granted_again_with_a_higher_token,
    a_replica_with_a_shorter_retention_purges_nothing_that_another_answers_for,
    a_purge_under_way_takes_nothing_that_a_new_policy_keeps,
    a_row_that_can_not_be_read_does_not_hold_up_the_purge,
);

const MARGIN: Span = Span::from_secs(3_600);

/// A server that purges all the time.
async fn server(kind: Kind) -> TestServer {
    let unsure = Policy { on_expiry: OnExpiry::Park, ..Policy::default() };
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() }.with("unsure", unsure);
    TestServer::start_with(kind, setup).await
}

async fn there(server: &TestServer, consumer: &str, id: &str) -> bool {
    server.entry(&Key::new(consumer, "tests", id)).await.is_some()
}

async fn each_state_is_kept_for_its_retention(kind: Kind) {
    let mut server = server(kind).await;
    let mut tokens = std::collections::HashMap::new();
    for (consumer, id) in [
        ("c", "completed"),
        ("c", "released"),
        ("c", "retryable"),
        ("c", "terminal"),
        ("c", "parked"),
        ("c", "abandoned"),
        ("c", "started"),
        ("unsure", "abandoned"),
    ] {
        let held = acquired(&server.client.claim(claim(consumer, id)).await.unwrap().into_inner());
        tokens.insert((consumer, id), held.token);
    }
    let token = |id| tokens[&("c", id)];
    let fail = |id: &str, token, kind: proto::FailureKind| proto::FailRequest {
        key: key("c", id),
        token,
        kind: kind.into(),
        ..Default::default()
    };
    let client = &mut server.client;
    client
        .complete(proto::CompleteRequest {
            key: key("c", "completed"),
            token: token("completed"),
            ..Default::default()
        })
        .await
        .unwrap();
    client
        .release(proto::ReleaseRequest {
            key: key("c", "released"),
            token: token("released"),
            delay: None,
            unpin_fingerprint: false,
            event_type: String::new(),
        })
        .await
        .unwrap();
    client.fail(fail("retryable", token("retryable"), proto::FailureKind::Retryable)).await.unwrap();
    client.fail(fail("terminal", token("terminal"), proto::FailureKind::Terminal)).await.unwrap();
    client.fail(fail("parked", token("parked"), proto::FailureKind::Park)).await.unwrap();
    client
        .renew(proto::RenewRequest {
            key: key("c", "started"),
            token: token("started"),
            effect_started: true,
            ..Default::default()
        })
        .await
        .unwrap();

    // The instants at which each may go: a moment before it is there, a moment after it is not.
    let moment = Span::from_secs(60);
    server.advance(Span::from_days(7) + MARGIN + Span(-moment.micros())).await;
    server.at.until_purged().await;
    assert!(there(&server, "c", "completed").await, "inside its retention and margin");
    // The purge looks at an entry up to two hours after it is due.
    server.advance(moment + MARGIN + MARGIN).await;
    server.at.until_purged().await;
    assert!(!there(&server, "c", "completed").await, "completed: 7 days");
    for id in ["released", "retryable", "terminal", "parked", "abandoned", "started"] {
        assert!(there(&server, "c", id).await, "{id} is kept for longer than 7 days");
    }
    server.advance(Span::from_days(23) + moment + MARGIN).await;
    server.at.until_purged().await;
    server.advance(Span::from_days(8)).await;
    server.at.until_purged().await;
    for id in ["released", "retryable", "terminal", "abandoned"] {
        assert!(!there(&server, "c", id).await, "{id}: 30 days");
    }
    server.advance(Span::from_days(400)).await;
    server.at.until_purged().await;
    for (consumer, id) in [("c", "parked"), ("c", "started"), ("unsure", "abandoned")] {
        assert!(there(&server, consumer, id).await, "{consumer}/{id} waits for a person, for ever");
    }
    assert_eq!(server.metric("idempotency_ledger_purged_total"), Some(5.0));
    assert_eq!(server.metric("idempotency_ledger_purge_failures_total"), Some(0.0));
    server.stop().await;
}

async fn a_purged_key_is_granted_again_with_a_higher_token(kind: Kind) {
    let mut server = server(kind).await;
    let first = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let done = proto::CompleteRequest { key: key("c", "1"), token: first.token, ..Default::default() };
    server.client.complete(done.clone()).await.unwrap();
    server.advance(Span::from_days(8)).await;
    server.at.until_purged().await;
    let gone = server.client.complete(done).await.unwrap_err();
    assert_eq!(crate::harness::details::refusal(&gone).reason, "ENTRY_NOT_FOUND");
    let second = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    assert!(second.token > first.token && second.attempt == 1);
    server.stop().await;
}

async fn a_replica_with_a_shorter_retention_purges_nothing_that_another_answers_for(kind: Kind) {
    let mut short = server(kind).await;
    let held = acquired(&short.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let request = proto::CompleteRequest { key: key("c", "1"), token: held.token, ..Default::default() };
    short.client.complete(request).await.unwrap();
    // A rollout that has come half way: another replica remembers for 30 days.
    let month = Span::from_days(30);
    let policy =
        Policy { retention: month, failed_retention: month, abandoned_retention: month, ..Policy::default() };
    let setup = Setup { default: policy, ..Setup::default() };
    let long = Served::start(Arc::clone(&short.at.store), setup).await;
    short.advance(Span::from_days(9)).await;
    short.at.until_purged().await;
    assert!(there(&short, "c", "1").await, "the other replica still answers for it");
    long.stop().await;
    short.stop().await;
}

/// Rules may change between the purge's judgement and its deletion, by way of another replica.
async fn a_purge_under_way_takes_nothing_that_a_new_policy_keeps(kind: Kind) {
    let days = |days: i64| Some(prost_types::Duration { seconds: days * 86_400, nanos: 0 });
    let quarter = |field: &str| match field {
        "retention" => proto::Policy { retention: days(90), ..Default::default() },
        "failed_retention" => proto::Policy { failed_retention: days(90), ..Default::default() },
        _ => proto::Policy { abandoned_retention: days(90), ..Default::default() },
    };
    for field in ["retention", "failed_retention", "abandoned_retention"] {
        let mut server = TestServer::start(kind).await;
        server.looked().await;
        let token = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner()).token;
        let key = key("c", "1");
        match field {
            "retention" => {
                let request = proto::CompleteRequest { key, token, ..Default::default() };
                server.client.complete(request).await.map(drop).unwrap();
            }
            "failed_retention" => {
                let kind = proto::FailureKind::Terminal.into();
                let request = proto::FailRequest { key, token, kind, ..Default::default() };
                server.client.fail(request).await.map(drop).unwrap();
            }
            _ => {
                server
                    .client
                    .release(proto::ReleaseRequest {
                        key,
                        token,
                        delay: None,
                        unpin_fingerprint: false,
                        event_type: String::new(),
                    })
                    .await
                    .unwrap();
            }
        }
        server.advance(Span::from_days(31)).await;
        let plan = Arc::new(Plan::default());
        plan.close();
        let store = FaultyStore { inner: Arc::clone(&server.at.store), plan: Arc::clone(&plan) };
        let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
        let purging = Served::start(Arc::new(store), setup).await;
        plan.arrived(1).await;
        let request = proto::SetPolicyRequest {
            consumer: "c".into(),
            request_id: "keep it".into(),
            reason: "an audit is under way".into(),
            policy: Some(quarter(field)),
            ..Default::default()
        };
        server.admin.set_policy(request).await.unwrap();
        plan.open();
        server.at.until_purged().await;
        assert!(there(&server, "c", "1").await, "{field}");
        server.advance(Span::from_days(60)).await;
        server.at.until_purged().await;
        assert!(!there(&server, "c", "1").await, "{field}: 90 days are over");
        purging.stop().await;
        server.stop().await;
    }
}

async fn a_row_that_can_not_be_read_does_not_hold_up_the_purge(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["bad", "good"] {
        let held = acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner());
        let request = proto::CompleteRequest { key: key("c", id), token: held.token, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
    server.at.execute("UPDATE @entries SET state = 77 WHERE id = 'bad'").await;
    server.advance(Span::from_days(8)).await;
    server.at.until_purged().await;
    assert!(!there(&server, "c", "good").await);
    server.stop().await;
}
