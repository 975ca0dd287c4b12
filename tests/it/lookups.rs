//! Lookup and BatchLookup beyond the table of states: what holds grants back, replay runs, quotas, batches, and that
//! nothing is ever written.

use bytes::Bytes;
use idempotency_ledger::domain::{Key, Policy, Span};
use idempotency_ledger::proto::lookup_response::Found;
use idempotency_ledger::proto::lookup_result::Outcome;
use idempotency_ledger::proto::{self, EntryState, ErrorReason};
use prost::Message as _;
use tonic::Code;

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};
use crate::{holds, replays, unreadable};

on_both_stores!(
    lookup_of_an_absent_key_makes_no_entry,
    what_holds_grants_back_does_not_hold_lookups_back,
    lookup_asks_for_registration_and_takes_no_quota,
    lookup_in_a_replay_run_follows_the_run,
    batch_answers_in_order_and_leaves_results_out_to_fit,
    lookups_are_counted_by_consumer_and_state,
);

fn look(consumer: &str, id: &str) -> proto::LookupRequest {
    proto::LookupRequest { key: key(consumer, id), wait: None }
}

async fn found(server: &TestServer, consumer: &str, id: &str) -> proto::LookupResponse {
    server.client.clone().lookup(look(consumer, id)).await.unwrap().into_inner()
}

async fn lookup_of_an_absent_key_makes_no_entry(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for _ in 0..2 {
        assert_eq!(found(&server, "c", "1").await, proto::LookupResponse::default());
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, None);
    let held = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    assert_eq!(held.attempt, 1);
    // The lease runs, and is in its grace, and over: three looks, and the row is what it was.
    let before = server.entry(&Key::new("c", "tests", "1")).await;
    for _ in 0..3 {
        assert_eq!(found(&server, "c", "1").await.state(), EntryState::InProgress);
        server.advance(Span::from_secs(31)).await;
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, before);
    server.stop().await;
}

async fn what_holds_grants_back_does_not_hold_lookups_back(kind: Kind) {
    let disabled = Policy { disabled: true, ..Policy::default() };
    let required = Policy {
        fingerprint: idempotency_ledger::domain::FingerprintMode::Require,
        occurred_at: idempotency_ledger::domain::OccurredAtMode::Require,
        ..Policy::default()
    };
    let setup = Setup::default().with("disabled", disabled).with("required", required);
    let mut server = TestServer::start_with(kind, setup).await;
    server.client.claim(claim("c", "1")).await.unwrap();
    server.client.claim(claim("held", "1")).await.unwrap();
    server.admin.hold_consumers(holds::hold("held")).await.unwrap();
    unreadable::newer(&server.at, "c", 1, r#"{"quorum":3}"#).await;
    let request = proto::GetPolicyRequest { consumer: "c".into() };
    let policy = server.admin.get_policy(request).await.unwrap().into_inner().policy.unwrap();
    assert!(policy.unreadable);
    server.at.set_clock(START - Span::from_secs(1)).await;
    for (consumer, state) in [
        ("disabled", EntryState::Unspecified),
        ("required", EntryState::Unspecified),
        ("held", EntryState::InProgress),
        ("c", EntryState::InProgress),
    ] {
        let refused = server.client.claim(claim(consumer, "new")).await.unwrap_err();
        assert_ne!(refused.code(), Code::Ok, "{consumer}");
        assert_eq!(found(&server, consumer, "1").await.state(), state, "{consumer}");
    }
    server.stop().await;
}

async fn lookup_asks_for_registration_and_takes_no_quota(kind: Kind) {
    let setup = Setup { registered_only: true, ..Setup::default() }
        .with("c", Policy { claims_per_second: 1, ..Policy::default() });
    let mut server = TestServer::start_with(kind, setup).await;
    let requests = (0..200).map(|_| look("c", "1")).collect();
    let answer = server.client.batch_lookup(proto::BatchLookupRequest { requests }).await.unwrap();
    for result in answer.into_inner().responses {
        assert!(matches!(result.outcome, Some(Outcome::Lookup(_))), "{result:?}");
    }
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let refused = refusal(&server.client.lookup(look("unknown", "1")).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "UNKNOWN_CONSUMER"));
    server.stop().await;
}

async fn lookup_in_a_replay_run_follows_the_run(kind: Kind) {
    let mut server = replays::server(kind, proto::ReplayMode::Rebuild).await;
    let look = |run: &str| proto::LookupRequest { key: replays::in_run(run, "1"), wait: None };
    let refused = refusal(&server.client.lookup(look("none")).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "REPLAY_RUN_UNKNOWN"));
    server.admin.create_replay_run(replays::creates("r")).await.unwrap();
    assert_eq!(server.client.lookup(look("r")).await.unwrap().into_inner().state(), EntryState::Unspecified);
    server.client.claim(replays::replayed("r", "1")).await.unwrap();
    // Neither its end nor a policy that forbids replays holds a look-up back.
    replays::set(
        &mut server,
        1,
        proto::Policy { replay: proto::ReplayMode::Forbid.into(), ..Default::default() },
    )
    .await;
    assert_eq!(replays::answered(&mut server, replays::replayed("r", "2")).await, "REPLAY_FORBIDDEN");
    assert_eq!(server.client.lookup(look("r")).await.unwrap().into_inner().state(), EntryState::InProgress);
    server.admin.close_replay_run(replays::closes("r")).await.unwrap();
    assert_eq!(replays::answered(&mut server, replays::replayed("r", "2")).await, "REPLAY_RUN_CLOSED");
    assert_eq!(server.client.lookup(look("r")).await.unwrap().into_inner().state(), EntryState::InProgress);
    assert_eq!(found(&server, "c", "1").await, proto::LookupResponse::default(), "live it is another key");
    // A run that suppresses effects has no entries; also once it is closed.
    replays::set(
        &mut server,
        2,
        proto::Policy { replay: proto::ReplayMode::Suppress.into(), ..Default::default() },
    )
    .await;
    server.admin.create_replay_run(replays::creates("s")).await.unwrap();
    for _ in 0..2 {
        let answer = server.client.lookup(look("s")).await.unwrap().into_inner();
        assert_eq!(answer, proto::LookupResponse::default());
        server.admin.close_replay_run(replays::closes("s")).await.unwrap();
    }
    server.stop().await;
}

async fn batch_answers_in_order_and_leaves_results_out_to_fit(kind: Kind) {
    let limits = idempotency_ledger::rpc::Limits { batch_bytes: 100_000, ..Default::default() };
    let mut server = TestServer::start_with(kind, Setup { limits, ..Setup::default() }).await;
    for number in 0..10 {
        let id = number.to_string();
        let token = acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner()).token;
        let result = Bytes::from(vec![number; 16_000]);
        let request = proto::CompleteRequest { key: key("c", &id), token, result, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
    server.client.claim(claim("c", "held")).await.unwrap();
    let mut requests: Vec<_> = (0..10).map(|number| look("c", &number.to_string())).collect();
    requests.extend([look("c", "held"), look("c", "none"), look("c", ""), look("c", "0")]);
    let answer =
        server.client.batch_lookup(proto::BatchLookupRequest { requests }).await.unwrap().into_inner();
    assert!(answer.encoded_len() <= 100_000, "{} bytes", answer.encoded_len());
    let mut said = Vec::new();
    for (number, result) in answer.responses.iter().enumerate() {
        said.push(match &result.outcome {
            Some(Outcome::Lookup(response)) => match &response.found {
                Some(Found::Completed(it)) => {
                    assert_eq!(it.result.is_empty(), it.result_omitted, "{number}");
                    assert!(it.result.iter().all(|byte| usize::from(*byte) == number), "{number}");
                    if it.result_omitted { "omitted" } else { "whole" }
                }
                Some(Found::InProgress(_)) => "held",
                Some(_) => "other",
                None => "none",
            },
            Some(Outcome::Rejected(rejected)) => {
                assert_eq!(rejected.reason(), ErrorReason::InvalidField);
                let path = rejected.field_violations.first().map(|one| one.field.as_str());
                assert_eq!(path, Some("requests[12].key.id"));
                "rejected"
            }
            None => "nothing",
        });
    }
    let whole = |many: usize| said.iter().take(many).all(|one| *one == "whole");
    assert!(whole(6) && said[6..10].iter().all(|one| *one == "omitted"), "the last go first: {said:?}");
    assert_eq!(said[10..], ["held", "none", "rejected", "omitted"]);
    let requests = vec![look("c", "1"); 1_001];
    let refused = server.client.batch_lookup(proto::BatchLookupRequest { requests }).await.unwrap_err();
    assert_eq!(
        (refusal(&refused).reason.as_str(), fields(&refused)),
        ("TOO_MANY_ITEMS", vec!["requests".into()])
    );
    server.stop().await;
}

async fn lookups_are_counted_by_consumer_and_state(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let count = |server: &TestServer, consumer: &str, state: &str| {
        let series = format!("idempotency_ledger_lookups_total{{consumer=\"{consumer}\",state=\"{state}\"}}");
        server.metric(&series)
    };
    found(&server, "c", "1").await;
    server.client.claim(claim("c", "1")).await.unwrap();
    for _ in 0..2 {
        found(&server, "c", "1").await;
    }
    server.client.lookup(look("c", "")).await.unwrap_err();
    assert_eq!(count(&server, "c", "rejected"), Some(1.0));
    // A consumer that was never answered is counted among the others.
    server.client.lookup(look("unseen", "")).await.unwrap_err();
    assert_eq!(count(&server, "other", "rejected"), Some(1.0));
    assert_eq!(count(&server, "unseen", "rejected"), None);
    assert_eq!(count(&server, "c", "absent"), Some(1.0));
    assert_eq!(count(&server, "c", "in_progress"), Some(2.0));
    assert_eq!(count(&server, "c", "completed"), Some(0.0));
    // Who never looks has no series of it.
    server.client.claim(claim("d", "1")).await.unwrap();
    server.client.lookup(look("d", "")).await.unwrap_err();
    assert_eq!(count(&server, "other", "rejected"), Some(2.0));
    assert_eq!(count(&server, "d", "absent"), None);
    server.stop().await;
}
