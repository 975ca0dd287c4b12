//! ClaimNext: docs/contract.md, section 15.

use std::time::{Duration, Instant};

use idempotency_ledger::domain::Policy;
use idempotency_ledger::proto::{self, EntryState, FailureKind, MessageState};
use prost_types::Duration as Span;

use super::{handed, ids, inbox, message, next, seconds, server, server_with, stored};
use crate::harness::details::{claim, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    message_is_handed_out_as_it_was_stored_and_completed,
    messages_are_handed_out_the_oldest_first_and_each_once,
    repeat_is_answered_its_own_handout,
    repeat_by_another_caller_is_closed,
    worker_that_died_loses_its_messages_after_lease_and_grace,
    suspect_travels_alone,
    exhausted_message_is_parked_and_not_handed_out,
    failed_message_comes_again_after_its_backoff,
    bytes_max_shortens_a_handout_but_never_to_nothing,
    waiting_call_is_woken_by_a_store,
    waiting_call_takes_what_another_server_stored,
    quota_shortens_a_handout,
    disabled_consumer_is_handed_nothing_but_its_repeat,
    repeat_leaves_out_a_message_whose_effect_was_announced,
    message_that_was_stored_with_its_demands_needs_none_of_its_handout,
    dropped_fingerprint_erases_the_message,
);

pub(super) async fn entry(server: &mut TestServer, id: &str) -> proto::Entry {
    let request = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
    server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap()
}

pub(super) async fn complete(server: &mut TestServer, id: &str, token: i64) -> proto::CompleteResponse {
    let request = proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
    server.client.complete(request).await.unwrap().into_inner()
}

async fn message_is_handed_out_as_it_was_stored_and_completed(kind: Kind) {
    // The purge at the start of the server must not erase it.
    let policy = Policy { message_retention: seconds(60), ..inbox() };
    let mut server = server_with(kind, Setup::default().with("c", policy)).await;
    stored(&mut server, "1").await;
    let now = entry(&mut server, "1").await;
    assert_eq!((now.state(), now.message_state()), (EntryState::Received, MessageState::Kept));
    assert!(now.due_at.is_some() && now.retain_until.is_none());
    let response = server.client.claim_next(next(1)).await.unwrap().into_inner();
    let [handed] = response.messages.as_slice() else { panic!("{response:?}") };
    assert_eq!(handed.message, message("1").message);
    assert_eq!(handed.key, key("c", "1"));
    let acquired = handed.acquired.clone().unwrap();
    assert_eq!((acquired.attempt, acquired.lease), (1, Some(Span { seconds: 30, nanos: 0 })));
    let done = complete(&mut server, "1", acquired.token).await;
    assert!(!done.late && !done.replayed);
    let now = entry(&mut server, "1").await;
    assert_eq!((now.state(), now.due_at), (EntryState::Completed, None));
    assert!(now.erase_at.is_some(), "erased after its completion");
    let empty = server.client.claim_next(next(1)).await.unwrap().into_inner();
    assert!(empty.messages.is_empty() && empty.retry_after.is_some());
    server.stop().await;
}

async fn messages_are_handed_out_the_oldest_first_and_each_once(kind: Kind) {
    let mut server = server(kind).await;
    for id in 0..7 {
        stored(&mut server, &id.to_string()).await;
        server.advance(seconds(1)).await;
    }
    let mut all = Vec::new();
    for count in [3, 3, 1, 0] {
        let some = handed(&mut server, next(3)).await;
        assert_eq!(some.len(), count);
        all.extend(some.into_iter().map(|(id, _)| id));
    }
    assert_eq!(all, ["0", "1", "2", "3", "4", "5", "6"]);
    server.stop().await;
}

async fn repeat_is_answered_its_own_handout(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
    }
    let first = next(2);
    let before = handed(&mut server, first.clone()).await;
    assert_eq!(before.len(), 2);
    assert_eq!(handed(&mut server, first.clone()).await, before, "its own handout");
    complete(&mut server, &before[0].0, before[0].1).await;
    assert_eq!(handed(&mut server, first.clone()).await, before[1..], "what it still holds");
    // Re-armed: the lease is over, and no other claim has it yet.
    server.advance(seconds(30)).await;
    assert_eq!(handed(&mut server, first.clone()).await, before[1..]);
    complete(&mut server, &before[1].0, before[1].1).await;
    let refused = server.client.claim_next(first).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "CLAIM_CLOSED");
    assert_eq!(refused.code(), tonic::Code::Aborted);
    assert_eq!(handed(&mut server, next(9)).await.len(), 1, "the third one was never touched");
    server.stop().await;
}

async fn repeat_by_another_caller_is_closed(kind: Kind) {
    let mut server = server_with(kind, Setup::default().with("c", inbox()).with("d", inbox())).await;
    stored(&mut server, "1").await;
    let first = next(1);
    assert_eq!(handed(&mut server, first.clone()).await.len(), 1);
    for other in [
        proto::ClaimNextRequest { owner: "another".into(), ..first.clone() },
        proto::ClaimNextRequest { consumer: "d".into(), ..first.clone() },
    ] {
        let refused = server.client.claim_next(other).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "CLAIM_CLOSED");
    }
    assert_eq!(handed(&mut server, first).await.len(), 1);
    server.stop().await;
}

async fn worker_that_died_loses_its_messages_after_lease_and_grace(kind: Kind) {
    let mut server = server(kind).await;
    for id in 0..10 {
        stored(&mut server, &id.to_string()).await;
    }
    let died = handed(&mut server, next(10)).await;
    assert_eq!(died.len(), 10);
    for (id, token) in &died[..4] {
        complete(&mut server, id, *token).await;
    }
    assert!(handed(&mut server, next(10)).await.is_empty());
    server.advance(seconds(30)).await;
    assert!(handed(&mut server, next(10)).await.is_empty(), "the grace");
    server.advance(seconds(1)).await;
    let again = handed(&mut server, next(10)).await;
    let (mut ids, mut expected): (Vec<_>, Vec<_>) =
        (again.iter().map(|one| &one.0).collect(), died[4..].iter().map(|one| &one.0).collect());
    ids.sort();
    expected.sort();
    assert_eq!(ids, expected);
    let old: std::collections::HashMap<_, _> = died.iter().cloned().collect();
    assert!(again.iter().all(|(id, token)| *token > old[id]), "tokens grow");
    server.stop().await;
}

/// A message whose lease ran out twice in a row is handed out alone, and costs its neighbours at most two attempts.
async fn suspect_travels_alone(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["1", "poison", "2"] {
        stored(&mut server, id).await;
        server.advance(seconds(1)).await;
    }
    for _ in 0..2 {
        assert_eq!(handed(&mut server, next(9)).await.len(), 3, "all die with the worker");
        server.advance(seconds(31)).await;
    }
    // All three are suspects now: each travels alone.
    let mut alone = Vec::new();
    for _ in 0..3 {
        let one = handed(&mut server, next(9)).await;
        assert_eq!(one.len(), 1, "{one:?}");
        alone.extend(one);
    }
    let of = |id: &str| alone.iter().find(|one| one.0 == id).unwrap().1;
    for id in ["1", "2"] {
        complete(&mut server, id, of(id)).await;
    }
    stored(&mut server, "3").await;
    server.advance(seconds(31)).await;
    // The poison was due earlier than what was stored since: it comes first, and alone.
    let (mut first, second) = (handed(&mut server, next(9)).await, handed(&mut server, next(9)).await);
    first.extend(second);
    let ids: Vec<&str> = first.iter().map(|one| one.0.as_str()).collect();
    assert!(ids.len() == 2 && ids.contains(&"poison") && ids.contains(&"3"), "{ids:?}");
    server.stop().await;
}

async fn exhausted_message_is_parked_and_not_handed_out(kind: Kind) {
    let policy = Policy { max_attempts: 1, ..inbox() };
    let mut server = server_with(kind, Setup::default().with("c", policy)).await;
    stored(&mut server, "1").await;
    assert_eq!(handed(&mut server, next(1)).await.len(), 1);
    server.advance(seconds(31)).await;
    stored(&mut server, "2").await;
    assert_eq!(handed(&mut server, next(9)).await.iter().map(|one| &*one.0).collect::<Vec<_>>(), ["2"]);
    let parked = entry(&mut server, "1").await;
    assert_eq!((parked.state(), parked.cause()), (EntryState::Parked, proto::ParkCause::AttemptsExhausted));
    assert_eq!((parked.message_state(), parked.due_at), (MessageState::Kept, None));
    server.stop().await;
}

async fn failed_message_comes_again_after_its_backoff(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let [(id, token)] = handed(&mut server, next(1)).await.try_into().unwrap();
    let request = proto::FailRequest {
        key: key("c", &id),
        token,
        kind: FailureKind::Retryable.into(),
        error: "no".into(),
        retry_after: Some(Span { seconds: 60, nanos: 0 }),
        ..Default::default()
    };
    server.client.fail(request).await.unwrap();
    server.advance(seconds(59)).await;
    let empty = server.client.claim_next(next(1)).await.unwrap().into_inner();
    assert!(empty.messages.is_empty());
    assert!(empty.retry_after.unwrap().seconds <= 1, "{empty:?}");
    server.advance(seconds(1)).await;
    let response = server.client.claim_next(next(1)).await.unwrap().into_inner();
    let acquired = response.messages[0].acquired.clone().unwrap();
    assert_eq!((acquired.attempt, acquired.last_error.as_str()), (2, "no"));
    server.stop().await;
}

async fn bytes_max_shortens_a_handout_but_never_to_nothing(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["1", "2", "3"] {
        stored(&mut server, id).await;
        server.advance(seconds(1)).await;
    }
    for (bytes_max, count) in [(1, 1), (400, 2)] {
        let request = proto::ClaimNextRequest { bytes_max, ..next(9) };
        assert_eq!(handed(&mut server, request).await.len(), count, "{bytes_max}");
    }
    server.stop().await;
}

async fn waiting_call_is_woken_by_a_store(kind: Kind) {
    let mut server = server(kind).await;
    let mut client = server.client.clone();
    let request = proto::ClaimNextRequest { wait: Some(Span { seconds: 9, nanos: 0 }), ..next(1) };
    let waits = tokio::spawn(async move { client.claim_next(request).await });
    crate::waiting::until_waiting(&server, 1).await;
    stored(&mut server, "1").await;
    let stored_at = Instant::now();
    let response = waits.await.unwrap().unwrap().into_inner();
    assert_eq!(ids(&response).len(), 1);
    assert!(stored_at.elapsed() < Duration::from_secs(5));
    server.stop().await;
}

async fn waiting_call_takes_what_another_server_stored(kind: Kind) {
    let mut server = server(kind).await;
    let setup = Setup::default().with("c", inbox());
    let other = crate::harness::server::Served::start(std::sync::Arc::clone(&server.at.store), setup).await;
    let mut client = other.client.clone();
    let request = proto::ClaimNextRequest { wait: Some(Span { seconds: 9, nanos: 0 }), ..next(1) };
    let waits = tokio::spawn(async move { client.claim_next(request).await });
    stored(&mut server, "1").await;
    assert_eq!(ids(&waits.await.unwrap().unwrap().into_inner()).len(), 1);
    other.stop().await;
    server.stop().await;
}

async fn quota_shortens_a_handout(kind: Kind) {
    let policy = Policy { claims_per_second: 2, ..inbox() };
    let mut server = server_with(kind, Setup::default().with("c", policy)).await;
    for id in ["1", "2", "3", "4"] {
        stored(&mut server, id).await;
    }
    assert_eq!(handed(&mut server, next(9)).await.len(), 2);
    server.stop().await;
}

async fn disabled_consumer_is_handed_nothing_but_its_repeat(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    stored(&mut server, "2").await;
    let first = next(1);
    let before = handed(&mut server, first.clone()).await;
    let policy = proto::Policy { inbox: Some(true), disabled: Some(true), ..Default::default() };
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "off".into(),
        reason: "a rest".into(),
        policy: Some(policy),
        ..Default::default()
    };
    server.admin.set_policy(request).await.unwrap();
    let refused = server.client.claim_next(next(1)).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "CONSUMER_DISABLED");
    assert_eq!(handed(&mut server, first).await, before);
    let plain = server.client.claim(claim("c", "2")).await.unwrap_err();
    assert_eq!(refusal(&plain).reason, "CONSUMER_DISABLED");
    server.stop().await;
}

async fn repeat_leaves_out_a_message_whose_effect_was_announced(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    stored(&mut server, "2").await;
    let first = next(2);
    let before = handed(&mut server, first.clone()).await;
    let (id, token) = before[0].clone();
    let request =
        proto::RenewRequest { key: key("c", &id), token, effect_started: true, ..Default::default() };
    server.client.renew(request).await.unwrap();
    assert_eq!(handed(&mut server, first).await, before[1..]);
    server.stop().await;
}

/// What REQUIRE demands of a Claim, the Store has had.
async fn message_that_was_stored_with_its_demands_needs_none_of_its_handout(kind: Kind) {
    let policy = Policy {
        fingerprint: idempotency_ledger::domain::FingerprintMode::Require,
        occurred_at: idempotency_ledger::domain::OccurredAtMode::Require,
        ..inbox()
    };
    let mut server = server_with(kind, Setup::default().with("c", policy)).await;
    let refused = server.client.store(message("1")).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "INVALID_FIELD");
    let request = proto::StoreRequest {
        fingerprint: vec![1; 32].into(),
        occurred_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
        ..message("1")
    };
    server.client.store(request).await.unwrap();
    assert_eq!(handed(&mut server, next(1)).await.len(), 1);
    server.stop().await;
}

async fn dropped_fingerprint_erases_the_message(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let before = entry(&mut server, "1").await;
    let request = proto::RedriveEntryRequest {
        key: key("c", "1"),
        request_id: "r".into(),
        expected_version: before.version,
        reason: "another body".into(),
        drop_fingerprint: true,
        ..Default::default()
    };
    let refused = server.admin.redrive_entry(request.clone()).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "STATE_NOT_ALLOWED", "no broker has another copy");
    let forced = proto::RedriveEntryRequest { request_id: "forced".into(), force: true, ..request };
    let answer = server.admin.redrive_entry(forced).await.unwrap().into_inner();
    assert!(answer.message_erased);
    assert_eq!(answer.entry.unwrap().message_state(), MessageState::Erased);
    assert!(handed(&mut server, next(1)).await.is_empty());
    let again = server.client.store(message("1")).await.unwrap().into_inner();
    assert_eq!(super::answered(&again).0, "stored RECEIVED", "a new delivery brings it back");
    assert_eq!(handed(&mut server, next(1)).await.len(), 1);
    server.stop().await;
}
