//! Operators' changes through the wire: what they do, what they refuse, how they repeat, and that each
//! leaves its audit event and a refusal none. The rows of docs/contract.md, section 6, are in
//! `operate_table`; `proof::differential` and `proof::lockstep` compare it with the specification in every
//! order.

mod audit;
mod audit_filters;
mod desk;
mod lock_order;

use std::sync::Arc;

use bytes::Bytes;
use idempotency_ledger::domain::{Key, OnExpiry, Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::{Code, Status};

use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, Setup, TestServer, TestStore};

on_all_stores!(
    a_parked_holders_complete_still_counts,
    a_redriven_message_is_claimed_anew_and_old_tokens_are_fenced,
    a_resolved_message_is_answered_as_resolved,
    a_deleted_message_is_new_and_its_names_are_gone,
    a_message_outside_the_window_is_let_in,
    danger_needs_force,
    a_repeat_changes_nothing,
    a_change_needs_the_version_that_was_seen,
    malformed_orders_are_refused_by_field,
    an_unknown_outcome_is_found_out_by_the_repeat,
);

async fn version(server: &mut TestServer, id: &str) -> i64 {
    let request = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
    server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap().version
}

async fn redrive(server: &mut TestServer, id: &str) -> proto::RedriveEntryRequest {
    proto::RedriveEntryRequest {
        key: key("c", id),
        request_id: format!("redrive {id}"),
        expected_version: version(server, id).await,
        reason: "the provider is back".into(),
        ..Default::default()
    }
}

async fn park(server: &mut TestServer, id: &str) -> proto::ParkEntryRequest {
    proto::ParkEntryRequest {
        key: key("c", id),
        request_id: format!("park {id}"),
        expected_version: version(server, id).await,
        reason: "looks wrong".into(),
    }
}

async fn delete(server: &mut TestServer, id: &str) -> proto::DeleteEntryRequest {
    proto::DeleteEntryRequest {
        key: key("c", id),
        request_id: format!("delete {id}"),
        expected_version: version(server, id).await,
        reason: "the customer asked for it".into(),
        ..Default::default()
    }
}

async fn resolve(server: &mut TestServer, id: &str, state: proto::EntryState) -> proto::ResolveEntryRequest {
    proto::ResolveEntryRequest {
        key: key("c", id),
        request_id: format!("resolve {id} {state:?}"),
        expected_version: version(server, id).await,
        reason: "looked it up at the provider".into(),
        state: state.into(),
        ..Default::default()
    }
}

async fn take(server: &mut TestServer, id: &str) -> i64 {
    acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner()).token
}

fn complete(id: &str, token: i64) -> proto::CompleteRequest {
    proto::CompleteRequest {
        key: key("c", id),
        token,
        result: Bytes::from_static(b"done"),
        result_left_out: false,
        event_type: String::new(),
    }
}

async fn audit(server: &mut TestServer) -> Vec<proto::AuditEvent> {
    let request = proto::ListAuditEventsRequest::default();
    server.admin.list_audit_events(request).await.unwrap().into_inner().events
}

fn reason(status: Status) -> (Code, String) {
    let refused = refusal(&status);
    (refused.code, refused.reason)
}

async fn a_parked_holders_complete_still_counts(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = take(&mut server, "1").await;
    let request = park(&mut server, "1").await;
    let parked = server.admin.park_entry(request).await.unwrap().into_inner().entry.unwrap();
    assert_eq!((parked.state(), parked.cause()), (proto::EntryState::Parked, proto::ParkCause::Operator));
    let asked = server.client.claim(claim("c", "1")).await.unwrap().into_inner();
    assert!(matches!(asked.verdict, Some(Verdict::Parked(_))), "{asked:?}");
    let done = server.client.complete(complete("1", token)).await.unwrap().into_inner();
    assert!(done.late && !done.replayed);
    completed(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    server.stop().await;
}

async fn a_redriven_message_is_claimed_anew_and_old_tokens_are_fenced(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = take(&mut server, "1").await;
    let request = park(&mut server, "1").await;
    server.admin.park_entry(request).await.unwrap();
    // The holder may be at work until its lease and grace are over.
    let request = redrive(&mut server, "1").await;
    let refused = server.admin.redrive_entry(request).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "STATE_NOT_ALLOWED".into()));
    server.advance(Span::from_secs(31)).await;
    let request = redrive(&mut server, "1").await;
    let redriven = server.admin.redrive_entry(request).await.unwrap().into_inner().entry.unwrap();
    assert_eq!((redriven.state(), redriven.attempts), (proto::EntryState::Received, 0));
    assert!(redriven.effect_unknown && redriven.owner.is_empty() && redriven.history.len() == 1);
    let refused = server.client.complete(complete("1", token)).await.unwrap_err();
    assert_eq!(reason(refused), (Code::Aborted, "LEASE_LOST".into()));
    let held = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    assert!(held.token > token && held.attempt == 1 && held.effect_unknown);
    server.stop().await;
}

/// What was resolved, with which result and evidence, and what the next delivery is answered.
type Resolved = (proto::EntryState, &'static [u8], &'static str, fn(&proto::ClaimResponse) -> bool);

async fn a_resolved_message_is_answered_as_resolved(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let rows: [Resolved; 3] = [
        (proto::EntryState::Completed, b"R", "receipt 7", |answer| {
            let found = completed(answer);
            &found.result[..] == b"R" && !found.by_this_claim
        }),
        (
            proto::EntryState::FailedTerminal,
            b"",
            "no such account",
            |answer| matches!(&answer.verdict, Some(Verdict::Failed(it)) if it.error == "no such account"),
        ),
        // Nothing is unknown any more.
        (proto::EntryState::Received, b"", "", |answer| {
            let held = acquired(answer);
            !held.effect_unknown && held.attempt == 1
        }),
    ];
    let id = |state: proto::EntryState| state.as_str_name();
    for (state, ..) in rows {
        take(&mut server, id(state)).await;
    }
    server.advance(Span::from_secs(31)).await;
    for (state, result, evidence, answered) in rows {
        let request = proto::ResolveEntryRequest {
            result: Bytes::from_static(result),
            evidence: evidence.into(),
            ..resolve(&mut server, id(state), state).await
        };
        server.admin.resolve_entry(request).await.unwrap();
        let answer = server.client.claim(claim("c", id(state))).await.unwrap().into_inner();
        assert!(answered(&answer), "{state:?}: {answer:?}");
    }
    let last = audit(&mut server).await.pop().unwrap();
    assert_eq!(last.action, "RESOLVE_COMPLETED");
    assert!(last.after_json.contains("receipt 7") && last.before_json.contains("IN_PROGRESS"), "{last:?}");
    server.stop().await;
}

async fn a_deleted_message_is_new_and_its_names_are_gone(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = take(&mut server, "jane@example.org").await;
    server.client.complete(complete("jane@example.org", token)).await.unwrap();
    // What is so young is not forgotten even by force: see below.
    let request = delete(&mut server, "jane@example.org").await;
    let request = proto::DeleteEntryRequest { force: true, ..request };
    let refused = server.admin.delete_entry(request).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "TOO_RECENT".into()));
    server.advance(Span::from_secs(61)).await;
    let request = delete(&mut server, "jane@example.org").await;
    let refused = server.admin.delete_entry(request.clone()).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "STATE_NOT_ALLOWED".into()));
    let request = proto::DeleteEntryRequest { force: true, request_id: "erase 1".into(), ..request };
    server.admin.delete_entry(request).await.unwrap();
    assert_eq!(server.entry(&Key::new("c", "tests", "jane@example.org")).await, None);
    let event = audit(&mut server).await.remove(0);
    assert_eq!((event.action.as_str(), event.actor.as_str()), ("DELETE", "anonymous"));
    assert_eq!(event.key_hash, Key::new("c", "tests", "jane@example.org").hash().to_string());
    assert_eq!(event.after_json, r#"{"evidence":"","force":true}"#);
    assert!(!format!("{event:?}").contains("jane"), "{event:?}");
    assert!(take(&mut server, "jane@example.org").await > token);
    server.stop().await;
}

async fn a_message_outside_the_window_is_let_in(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let old = START - Span::from_days(30);
    let occurred_at = Some(prost_types::Timestamp { seconds: old.micros() / 1_000_000, nanos: 0 });
    let request = proto::ClaimRequest { occurred_at, ..claim("c", "1") };
    let asked = server.client.claim(request.clone()).await.unwrap().into_inner();
    assert!(matches!(asked.verdict, Some(Verdict::OutsideWindow(_))), "{asked:?}");
    let order = proto::RedriveEntryRequest {
        key: key("c", "1"),
        request_id: "admit".into(),
        reason: "it was never processed".into(),
        admit: true,
        ..Default::default()
    };
    let refused = server.admin.redrive_entry(proto::RedriveEntryRequest {
        admit: false,
        expected_version: 1,
        ..order.clone()
    });
    assert_eq!(reason(refused.await.unwrap_err()), (Code::NotFound, "ENTRY_NOT_FOUND".into()));
    let admitted = server.admin.redrive_entry(order).await.unwrap().into_inner().entry.unwrap();
    assert_eq!(admitted.state(), proto::EntryState::Received);
    let events = proto::ListAuditEventsRequest { key: key("c", "1"), ..Default::default() };
    let events = server.admin.list_audit_events(events).await.unwrap().into_inner().events;
    assert_eq!((events.len(), events[0].before_json.as_str()), (1, ""));
    assert!(events[0].after_json.contains(r#""version":null"#), "it tells no version that never was");
    acquired(&server.client.claim(request).await.unwrap().into_inner());
    server.stop().await;
}

async fn danger_needs_force(kind: Kind) {
    let park_on_expiry = Policy { on_expiry: OnExpiry::Park, ..Policy::default() };
    let mut server =
        TestServer::start_with(kind, Setup { default: park_on_expiry, ..Setup::default() }).await;
    let token = take(&mut server, "done").await;
    server.client.complete(complete("done", token)).await.unwrap();
    take(&mut server, "held").await;
    for id in ["done", "held"] {
        let request = redrive(&mut server, id).await;
        let refused = server.admin.redrive_entry(request.clone()).await.unwrap_err();
        assert!(refused.message().contains("force"), "{}", refused.message());
        assert_eq!(reason(refused), (Code::FailedPrecondition, "STATE_NOT_ALLOWED".into()), "{id}");
        let forced = proto::RedriveEntryRequest { force: true, ..request };
        server.admin.redrive_entry(forced).await.unwrap();
        assert!(audit(&mut server).await[0].after_json.contains("\"force\":true"));
    }
    assert_eq!(audit(&mut server).await.len(), 2, "a refusal leaves no event");
    server.stop().await;
}

async fn a_repeat_changes_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = take(&mut server, "1").await;
    let fail = proto::FailRequest {
        key: key("c", "1"),
        token,
        kind: proto::FailureKind::Terminal.into(),
        ..Default::default()
    };
    server.client.fail(fail).await.unwrap();
    let request = redrive(&mut server, "1").await;
    let first = server.admin.redrive_entry(request.clone()).await.unwrap().into_inner();
    assert!(!first.replayed);
    take(&mut server, "1").await;
    let before = server.entry(&Key::new("c", "tests", "1")).await;
    let again = server.admin.redrive_entry(request.clone()).await.unwrap().into_inner();
    assert!(again.replayed);
    assert_eq!(again.entry.unwrap().state(), proto::EntryState::InProgress, "as it is now");
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, before);
    // The same id for something else.
    let other =
        proto::ParkEntryRequest { request_id: request.request_id.clone(), ..park(&mut server, "1").await };
    let refused = server.admin.park_entry(other).await.unwrap_err();
    assert_eq!(fields(&refused), ["request_id"]);
    for other in [
        proto::RedriveEntryRequest { force: true, ..request.clone() },
        proto::RedriveEntryRequest { drop_fingerprint: true, ..request.clone() },
        proto::RedriveEntryRequest { key: key("c", "2"), ..request.clone() },
        proto::RedriveEntryRequest { reason: "another".into(), ..request.clone() },
    ] {
        let refused = server.admin.redrive_entry(other.clone()).await.unwrap_err();
        assert_eq!(fields(&refused), ["request_id"], "{other:?}");
    }
    // The version that was looked at belongs to the request.
    let again = redrive(&mut server, "1").await;
    assert_eq!(fields(&server.admin.redrive_entry(again).await.unwrap_err()), ["request_id"]);
    assert_eq!(audit(&mut server).await.len(), 1);
    server.stop().await;
}

async fn a_change_needs_the_version_that_was_seen(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = take(&mut server, "1").await;
    let request = park(&mut server, "1").await;
    let renew = proto::RenewRequest { key: key("c", "1"), token, effect_started: true, ..Default::default() };
    server.client.renew(renew).await.unwrap();
    let refused = server.admin.park_entry(request).await.unwrap_err();
    assert_eq!(reason(refused), (Code::Aborted, "VERSION_MISMATCH".into()));
    assert!(audit(&mut server).await.is_empty());
    server.stop().await;
}

async fn malformed_orders_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let refused = server.admin.redrive_entry(proto::RedriveEntryRequest::default()).await.unwrap_err();
    assert_eq!(fields(&refused), ["key", "request_id", "reason", "expected_version"]);
    let request = proto::ResolveEntryRequest {
        key: key("c", "1"),
        request_id: "i".repeat(129),
        reason: "r".repeat(1_025),
        expected_version: -1,
        state: proto::EntryState::Parked.into(),
        result: vec![0; 16_385].into(),
        ..Default::default()
    };
    let refused = server.admin.resolve_entry(request).await.unwrap_err();
    assert_eq!(fields(&refused), ["result", "state", "result", "request_id", "reason", "expected_version"]);
    // What follows a slash is an entry of a redriving of many.
    let request = proto::ParkEntryRequest {
        key: key("c", "1"),
        request_id: format!("everything/{}", "0".repeat(32)),
        expected_version: 1,
        reason: "r".into(),
    };
    assert_eq!(fields(&server.admin.park_entry(request).await.unwrap_err()), ["request_id"]);
    let request =
        proto::ListAuditEventsRequest { page_size: 1_001, page_token: "x".into(), ..Default::default() };
    let refused = server.admin.list_audit_events(request).await.unwrap_err();
    assert_eq!(fields(&refused), ["page_size", "page_token"]);
    server.stop().await;
}

async fn an_unknown_outcome_is_found_out_by_the_repeat(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default()).await;
    // One try more finds out by itself; where that one breaks, too, nobody knows.
    for id in ["1", "2"] {
        take(&mut server, id).await;
        let request = park(&mut server, id).await;
        plan.next([Inject::LostRequest; 2]);
        let refused = server.admin.park_entry(request.clone()).await.unwrap_err();
        assert_eq!(reason(refused), (Code::Unavailable, "OUTCOME_UNKNOWN".into()));
        let again = server.admin.park_entry(request).await.unwrap().into_inner();
        assert_eq!((again.replayed, again.entry.unwrap().state()), (false, proto::EntryState::Parked));
    }
    take(&mut server, "3").await;
    let request = park(&mut server, "3").await;
    plan.next([Inject::LostRequest, Inject::LostAnswer]);
    let refused = server.admin.park_entry(request.clone()).await.unwrap_err();
    assert_eq!(reason(refused), (Code::Unavailable, "OUTCOME_UNKNOWN".into()));
    assert!(server.admin.park_entry(request).await.unwrap().into_inner().replayed);
    // A policy likewise.
    let policy = proto::Policy { disabled: Some(false), ..Default::default() };
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "policy".into(),
        reason: "a test".into(),
        policy: Some(policy),
        ..Default::default()
    };
    plan.next([Inject::LostRequest, Inject::NoReadAfter]);
    let refused = server.admin.set_policy(request.clone()).await.unwrap_err();
    assert_eq!(reason(refused), (Code::Unavailable, "OUTCOME_UNKNOWN".into()));
    assert!(server.admin.set_policy(request).await.unwrap().into_inner().replayed);
    assert_eq!(audit(&mut server).await.len(), 4);
    server.stop().await;
}
