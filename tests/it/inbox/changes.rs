//! What settlements and operators' changes do to the queue of stored messages. docs/contract.md, sections 5, 6 and 15.

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::{
    self, EffectEvidence, EntryChange, EntryState, FailureKind, MessageState, ReconcileOutcome,
};
use tonic::Status;

use super::next::{complete, entry};
use super::{handed, message, next, seconds, server, server_with, stored};
use crate::bulk::redrive;
use crate::harness::details::{key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};

on_both_stores!(
    renewed_message_is_due_after_its_new_lease,
    released_message_is_due_after_its_delay,
    late_complete_takes_a_message_out_of_the_queue,
    operators_take_a_message_out_of_the_queue_and_back,
    reconciled_message_is_handed_out_no_more,
    bulk_redrive_without_the_fingerprint_leaves_stored_messages,
    message_that_was_stored_a_moment_ago_is_not_deleted,
    kept_entry_shows_what_needs_force,
);

async fn is_due(server: &mut TestServer) -> bool {
    !handed(server, next(9)).await.is_empty()
}

/// A server that keeps messages for a minute after their completion: the purge at its start erases none of them.
async fn keeping(kind: Kind) -> TestServer {
    let policy = Policy { message_retention: Span::from_secs(60), ..super::inbox() };
    server_with(kind, Setup::default().with("c", policy)).await
}

/// Stores a message and takes it; its token.
async fn taken(server: &mut TestServer) -> i64 {
    stored(server, "1").await;
    let [(_, token)] = handed(server, next(1)).await.try_into().unwrap();
    token
}

async fn renewed_message_is_due_after_its_new_lease(kind: Kind) {
    let mut server = server(kind).await;
    let token = taken(&mut server).await;
    server.advance(seconds(20)).await;
    let lease = Some(prost_types::Duration { seconds: 100, nanos: 0 });
    let request = proto::RenewRequest {
        key: key("c", "1"),
        token,
        lease,
        checkpoint: Some(b"half".to_vec().into()),
        ..Default::default()
    };
    server.client.renew(request).await.unwrap();
    for (passed, due) in [(11, false), (89, false), (1, true)] {
        server.advance(seconds(passed)).await;
        let answer = server.client.claim_next(next(1)).await.unwrap().into_inner();
        assert_eq!(answer.messages.len(), usize::from(due), "{passed} s later");
        if let Some(acquired) = answer.messages.first().and_then(|one| one.acquired.clone()) {
            assert_eq!((acquired.attempt, acquired.effect_unknown), (2, true));
            assert_eq!(&acquired.checkpoint[..], b"half");
        }
    }
    server.stop().await;
}

async fn released_message_is_due_after_its_delay(kind: Kind) {
    let mut server = server(kind).await;
    let token = taken(&mut server).await;
    let delay = Some(prost_types::Duration { seconds: 60, nanos: 0 });
    let request = proto::ReleaseRequest { key: key("c", "1"), token, delay, ..Default::default() };
    server.client.release(request).await.unwrap();
    server.advance(seconds(59)).await;
    assert!(!is_due(&mut server).await);
    server.advance(seconds(1)).await;
    let answer = server.client.claim_next(next(1)).await.unwrap().into_inner();
    assert_eq!(answer.messages[0].acquired.as_ref().unwrap().attempt, 1, "the attempt does not count");
    let token = answer.messages[0].acquired.as_ref().unwrap().token;
    let request = proto::ReleaseRequest { key: key("c", "1"), token, ..Default::default() };
    server.client.release(request).await.unwrap();
    assert!(is_due(&mut server).await, "without a delay it is due now");
    server.stop().await;
}

async fn late_complete_takes_a_message_out_of_the_queue(kind: Kind) {
    let mut server = keeping(kind).await;
    let token = taken(&mut server).await;
    server.advance(seconds(40)).await;
    assert!(complete(&mut server, "1", token).await.late);
    assert!(!is_due(&mut server).await);
    let now = entry(&mut server, "1").await;
    assert_eq!((now.state(), now.due_at, now.erase_at.is_some()), (EntryState::Completed, None, true));
    server.stop().await;
}

async fn resolved(server: &mut TestServer, request_id: &str, state: EntryState) {
    let request = proto::ResolveEntryRequest {
        key: key("c", "1"),
        request_id: request_id.into(),
        expected_version: entry(server, "1").await.version,
        reason: "tests".into(),
        force: true,
        state: state.into(),
        ..Default::default()
    };
    server.admin.resolve_entry(request).await.unwrap();
}

async fn operators_take_a_message_out_of_the_queue_and_back(kind: Kind) {
    let mut server = keeping(kind).await;
    stored(&mut server, "1").await;
    let request = proto::ParkEntryRequest {
        key: key("c", "1"),
        request_id: "park".into(),
        expected_version: entry(&mut server, "1").await.version,
        reason: "tests".into(),
    };
    server.admin.park_entry(request).await.unwrap();
    assert!(!is_due(&mut server).await, "parked");
    let erased_at = |now: &proto::Entry| now.erase_at.map(|at| at.seconds - START.micros() / 1_000_000);
    // Each outcome, and when the message is erased.
    for (request_id, state, erased) in [
        ("done", EntryState::Completed, Some(60)),
        ("given up", EntryState::FailedTerminal, Some(30 * 86_400)),
        ("done all the same", EntryState::Completed, Some(60)),
    ] {
        resolved(&mut server, request_id, state).await;
        let now = entry(&mut server, "1").await;
        let found = (now.state(), now.message_state(), now.due_at, erased_at(&now));
        assert_eq!(found, (state, MessageState::Kept, None, erased));
        assert!(!is_due(&mut server).await, "{state:?}");
    }
    resolved(&mut server, "not done", EntryState::Received).await;
    let now = entry(&mut server, "1").await;
    assert_eq!((now.erase_at, now.due_at.is_some()), (None, true), "needed again");
    assert!(is_due(&mut server).await);
    server.stop().await;
}

async fn reconciled_message_is_handed_out_no_more(kind: Kind) {
    let mut server = keeping(kind).await;
    let row = |id: &str, evidence: EffectEvidence| proto::ReconcileRow {
        key: key("c", id),
        at: Some(prost_types::Timestamp { seconds: START.micros() / 1_000_000, nanos: 0 }),
        evidence: evidence.into(),
        ..Default::default()
    };
    for (id, evidence, outcome, state) in [
        ("done", EffectEvidence::Spool, ReconcileOutcome::Resolved, EntryState::Completed),
        ("begun", EffectEvidence::SpoolUnfinished, ReconcileOutcome::Parked, EntryState::Parked),
    ] {
        stored(&mut server, id).await;
        let request = proto::ReconcileEntriesRequest {
            reason: "the ledger was away".into(),
            dry_run: false,
            rows: vec![row(id, evidence)],
        };
        let results = server.admin.reconcile_entries(request).await.unwrap().into_inner().results;
        assert_eq!(results[0].outcome(), outcome, "{results:?}");
        let now = entry(&mut server, id).await;
        let found = (now.state(), now.message_state(), now.due_at);
        assert_eq!(found, (state, MessageState::Kept, None), "{id}");
        assert_eq!(now.erase_at.is_some(), state == EntryState::Completed, "{id}");
    }
    assert!(!is_due(&mut server).await);
    server.stop().await;
}

/// Many entries are redriven without `force`: no broker has another copy of their messages.
async fn bulk_redrive_without_the_fingerprint_leaves_stored_messages(kind: Kind) {
    let mut server = server(kind).await;
    super::store_table::failed(&mut server, "plain", FailureKind::Park).await;
    super::store_table::failed(&mut server, "stored", FailureKind::Park).await;
    server.client.store(message("stored")).await.unwrap();
    server.advance(seconds(1)).await;
    let request = proto::RedriveEntriesRequest { drop_fingerprint: true, ..redrive("op") };
    let answers = server.admin.redrive_entries(request).await.unwrap().into_inner();
    let reports: Vec<Result<_, Status>> = futures_util::StreamExt::collect(answers).await;
    let reports: Vec<proto::RedriveEntriesResponse> = reports.into_iter().map(Result::unwrap).collect();
    let last = reports.last().unwrap();
    assert_eq!((last.redriven, last.refused), (1, 1), "{reports:?}");
    let refused = reports.iter().flat_map(|one| &one.outcomes).find_map(|one| one.rejected.as_ref()).unwrap();
    assert_eq!(refused.reason(), proto::ErrorReason::StateNotAllowed);
    let now = entry(&mut server, "stored").await;
    assert_eq!((now.state(), now.message_state()), (EntryState::Parked, MessageState::Kept));
    // With the fingerprint they are redriven, and due.
    let answers = server.admin.redrive_entries(redrive("other")).await.unwrap().into_inner();
    let _reports: Vec<Result<_, Status>> = futures_util::StreamExt::collect(answers).await;
    assert!(is_due(&mut server).await);
    server.stop().await;
}

async fn message_that_was_stored_a_moment_ago_is_not_deleted(kind: Kind) {
    let mut server = server(kind).await;
    super::store_table::held(&mut server, "attached").await;
    server.advance(seconds(3_600)).await;
    stored(&mut server, "new").await;
    server.client.store(message("attached")).await.unwrap();
    for (passed, refused) in [(59, true), (2, false)] {
        server.advance(seconds(passed)).await;
        for id in ["new", "attached"] {
            let request = proto::DeleteEntryRequest {
                key: key("c", id),
                request_id: format!("delete {id} {passed}"),
                expected_version: entry(&mut server, id).await.version,
                reason: "tests".into(),
                force: true,
                ..Default::default()
            };
            let found = server.admin.delete_entry(request).await.err().map(|status| refusal(&status).reason);
            assert_eq!(found.as_deref(), refused.then_some("TOO_RECENT"), "{id}, {passed} s later");
        }
    }
    server.stop().await;
}

async fn kept_entry_shows_what_needs_force(kind: Kind) {
    let mut server = server(kind).await;
    stored(&mut server, "1").await;
    server.advance(seconds(120)).await;
    let now = entry(&mut server, "1").await;
    let needs_force = |change: EntryChange| {
        now.allowed_changes.iter().find(|one| one.change() == change).map(|one| one.needs_force)
    };
    for (change, expected) in [
        (EntryChange::Delete, Some(true)),
        (EntryChange::Redrive, Some(false)),
        (EntryChange::Park, Some(false)),
        (EntryChange::Resolve, Some(false)),
    ] {
        assert_eq!(needs_force(change), expected, "{change:?}");
    }
    server.stop().await;
}
