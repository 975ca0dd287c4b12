//! Entries whose message is kept: claimed, settled, redriven, given up and forgotten. docs/contract.md, section 15.

use idempotency_ledger::domain::{Key, Policy, Span};
use idempotency_ledger::proto::{self, EntryState, FailureKind, MessageState};
use tonic::{Code, Status};

use super::next::{complete, entry};
use super::store_table::{failed, held};
use super::{handed, inbox, message, next, seconds, server, server_with, stored};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    plain_claim_takes_a_stored_message,
    token_of_a_stored_entry_settles_nothing,
    kept_messages_never_expire,
    message_that_was_given_up_is_erased_and_purged_with_its_retention,
    redrive_makes_a_stored_message_due,
    get_message_of_an_erased_message_is_not_found,
);

async fn plain_claim_takes_a_stored_message(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let before = server.entry(&Key::new("c", "tests", "1")).await.unwrap();
    let claimed = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    assert_eq!((claimed.attempt, claimed.replayed, claimed.effect_unknown), (1, false, false));
    assert!(claimed.token > before.token, "its token is new");
    assert!(handed(&mut server, next(9)).await.is_empty(), "a message has one live claim");
    let now = entry(&mut server, "1").await;
    assert_eq!((now.state(), now.message_state()), (EntryState::InProgress, MessageState::Kept));
    // The lease of a plain claim ends as that of a handout.
    server.advance(seconds(31)).await;
    let [(_, token)] = handed(&mut server, next(9)).await.try_into().unwrap();
    assert!(token > claimed.token);
    let done = complete(&mut server, "1", token).await;
    assert!(!done.late && !done.replayed);
    server.stop().await;
}

async fn token_of_a_stored_entry_settles_nothing(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let before = server.entry(&Key::new("c", "tests", "1")).await.unwrap();
    let (key, token) = (key("c", "1"), before.token);
    let mut refusals: Vec<(&str, Status)> = Vec::new();
    let request = proto::CompleteRequest { key: key.clone(), token, ..Default::default() };
    refusals.push(("complete", server.client.complete(request).await.unwrap_err()));
    for of in [FailureKind::Retryable, FailureKind::Terminal, FailureKind::Park] {
        let request = proto::FailRequest { key: key.clone(), token, kind: of.into(), ..Default::default() };
        refusals.push((of.as_str_name(), server.client.fail(request).await.unwrap_err()));
    }
    let request = proto::ReleaseRequest { key: key.clone(), token, ..Default::default() };
    refusals.push(("release", server.client.release(request).await.unwrap_err()));
    let request = proto::RenewRequest { key, token, ..Default::default() };
    refusals.push(("renew", server.client.renew(request).await.unwrap_err()));
    for (call, status) in refusals {
        let refused = refusal(&status);
        let found = (refused.code, refused.reason.as_str(), refused.state.as_str(), refused.advice.as_str());
        assert_eq!(found, (Code::FailedPrecondition, "CLAIM_CLOSED", "RECEIVED", "RETRY_LATER"), "{call}");
    }
    assert_eq!(server.entry(&Key::new("c", "tests", "1")).await, Some(before), "nothing is changed");
    assert_eq!(handed(&mut server, next(9)).await.len(), 1, "and it is due as before");
    server.stop().await;
}

/// A server that purges all the time, with a message in each state, stored before or after the entry came to it.
async fn purging(kind: Kind) -> TestServer {
    let every = std::time::Duration::from_millis(50);
    let setup = Setup { purge_every: every, ..Setup::default().with("c", inbox()) };
    server_with(kind, setup).await
}

/// Waits until the purge has deleted the entry.
async fn until_purged(server: &TestServer, id: &str) {
    let since = std::time::Instant::now();
    while server.entry(&Key::new("c", "tests", id)).await.is_some() {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "{id} is not purged");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn released(server: &mut TestServer, id: &str) {
    let token = held(server, id).await;
    let request = proto::ReleaseRequest { key: key("c", id), token, ..Default::default() };
    server.client.release(request).await.unwrap();
}

async fn kept_messages_never_expire(kind: Kind) {
    const KEPT: [&str; 5] = ["received", "released", "retryable", "in progress", "parked"];
    let mut server = purging(kind).await;
    released(&mut server, "plain").await;
    released(&mut server, "released").await;
    failed(&mut server, "retryable", FailureKind::Retryable).await;
    failed(&mut server, "parked", FailureKind::Park).await;
    held(&mut server, "in progress").await;
    for id in KEPT {
        server.client.store(message(id)).await.unwrap();
        assert_eq!(entry(&mut server, id).await.retain_until, None, "{id}");
    }
    assert!(entry(&mut server, "plain").await.retain_until.is_some());
    server.advance(Span::from_days(300)).await;
    until_purged(&server, "plain").await;
    server.at.until_purged().await;
    for id in KEPT {
        assert_eq!(entry(&mut server, id).await.message_state(), MessageState::Kept, "{id}");
    }
    // All but the parked one are due; those whose lease ran out are no suspects, since it ran out one time.
    assert_eq!(handed(&mut server, next(9)).await.len(), 4);
    server.stop().await;
}

async fn message_that_was_given_up_is_erased_and_purged_with_its_retention(kind: Kind) {
    let mut server = purging(kind).await;
    stored(&mut server, "1").await;
    let [(_, token)] = handed(&mut server, next(1)).await.try_into().unwrap();
    let request = proto::FailRequest {
        key: key("c", "1"),
        token,
        kind: FailureKind::Terminal.into(),
        error: "never".into(),
        ..Default::default()
    };
    server.client.fail(request).await.unwrap();
    let now = entry(&mut server, "1").await;
    let retained = Policy::default().failed_retention;
    let ends = (server.at.now() + retained).micros() / 1_000_000;
    assert_eq!(now.retain_until.map(|at| at.seconds), Some(ends), "failed_retention");
    assert_eq!(now.erase_at, now.retain_until, "its message goes with it");
    assert!(handed(&mut server, next(1)).await.is_empty());
    server.advance(retained - seconds(1)).await;
    assert_eq!(entry(&mut server, "1").await.message_state(), MessageState::Kept);
    server.advance(seconds(1)).await;
    let since = std::time::Instant::now();
    while entry(&mut server, "1").await.message_state() != MessageState::Erased {
        assert!(since.elapsed() < std::time::Duration::from_secs(60), "it is not erased");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(entry(&mut server, "1").await.state(), EntryState::FailedTerminal, "nothing else changes");
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.messages").await, 0);
    server.advance(Span::from_secs(7_200)).await;
    until_purged(&server, "1").await;
    server.stop().await;
}

/// Redrives the entry as it is.
pub(super) async fn redriven(
    server: &mut TestServer,
    id: &str,
    change: proto::RedriveEntryRequest,
) -> proto::RedriveEntryResponse {
    let expected_version = entry(server, id).await.version;
    let request = proto::RedriveEntryRequest {
        key: key("c", id),
        request_id: format!("redrive {id} {expected_version}"),
        expected_version,
        reason: "the provider is back".into(),
        ..change
    };
    server.admin.redrive_entry(request).await.unwrap().into_inner()
}

async fn redrive_makes_a_stored_message_due(kind: Kind) {
    let mut server = server(kind).await;
    for id in ["parked", "retryable", "terminal"] {
        stored(&mut server, id).await;
    }
    let kinds = [
        ("parked", FailureKind::Park),
        ("retryable", FailureKind::Retryable),
        ("terminal", FailureKind::Terminal),
    ];
    for (id, of) in kinds {
        let token = held(&mut server, id).await;
        let retry_after = Some(prost_types::Duration { seconds: 86_400, nanos: 0 });
        let request = proto::FailRequest {
            key: key("c", id),
            token,
            kind: of.into(),
            retry_after,
            ..Default::default()
        };
        server.client.fail(request).await.unwrap();
    }
    assert!(handed(&mut server, next(9)).await.is_empty(), "none of them is due");
    for (id, _) in kinds {
        redriven(&mut server, id, Default::default()).await;
        let now = entry(&mut server, id).await;
        assert_eq!(now.due_at.map(|at| at.seconds), Some(server.at.now().micros() / 1_000_000), "{id}");
        let response = server.client.claim_next(next(9)).await.unwrap().into_inner();
        let [one] = response.messages.as_slice() else { panic!("{id}: {response:?}") };
        assert_eq!((&one.key, one.acquired.as_ref().unwrap().attempt), (&key("c", id), 1));
        assert_eq!(one.message, message(id).message, "{id}");
    }
    // As the result of an operator, a message that did not have its effect is due, too.
    let expected_version = entry(&mut server, "parked").await.version;
    let request = proto::ResolveEntryRequest {
        key: key("c", "parked"),
        request_id: "resolve".into(),
        expected_version,
        reason: "it did not happen".into(),
        force: true,
        state: EntryState::Received.into(),
        ..Default::default()
    };
    server.admin.resolve_entry(request).await.unwrap();
    assert_eq!(handed(&mut server, next(9)).await.len(), 1);
    server.stop().await;
}

/// The body stays in its table until the daily sweep: the entry decides what is shown.
async fn get_message_of_an_erased_message_is_not_found(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    let read = || proto::GetMessageRequest { key: key("c", "1"), reason: "a complaint".into() };
    server.admin.get_message(read()).await.unwrap();
    let change = proto::RedriveEntryRequest { drop_fingerprint: true, force: true, ..Default::default() };
    redriven(&mut server, "1", change).await;
    assert_eq!(entry(&mut server, "1").await.message_state(), MessageState::Erased);
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.messages").await, 1, "until the sweep");
    let refused = server.admin.get_message(read()).await.unwrap_err();
    let refusal = refusal(&refused);
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::NotFound, "ENTRY_NOT_FOUND"));
    let request = proto::ListAuditEventsRequest { page_size: 1_000, ..Default::default() };
    let events = server.admin.list_audit_events(request).await.unwrap().into_inner().events;
    let reads = events.iter().filter(|event| event.action == "READ_MESSAGE").count();
    assert_eq!(reads, 1, "only what was shown is an event");
    server.stop().await;
}
