//! Bulk park and bulk resolve: one operation changes no entry twice, whatever became of the entry, and of an answer.

use std::sync::Arc;

use futures_util::StreamExt as _;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, EntryState, FailureKind, ParkEntriesRequest, ParkEntriesResponse, ResolveEntriesRequest,
    ResolveEntriesResponse,
};
use tonic::Status;

use super::changes::{park, resolve, retried};
use super::{audit, numbered};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    operation_parks_no_entry_a_second_time,
    operation_resolves_no_entry_a_second_time,
    park_whose_answer_is_lost_is_counted_one_time,
    resolve_whose_answer_is_lost_is_counted_one_time,
);

/// All that a call reports: the last report, or the error with which it ends.
async fn parks(server: &mut TestServer, request: ParkEntriesRequest) -> Result<ParkEntriesResponse, Status> {
    let answers = server.admin.park_entries(request).await?.into_inner();
    answers.collect::<Vec<_>>().await.pop().unwrap()
}

async fn resolves(
    server: &mut TestServer,
    request: ResolveEntriesRequest,
) -> Result<ResolveEntriesResponse, Status> {
    let answers = server.admin.resolve_entries(request).await?.into_inner();
    answers.collect::<Vec<_>>().await.pop().unwrap()
}

async fn entry(server: &mut TestServer, id: &str) -> proto::Entry {
    let request = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
    server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap()
}

/// An operator makes the entry claimable, and its next attempt ends as the first one.
async fn fails_again(server: &mut TestServer, id: &str, kind: FailureKind) {
    let expected_version = entry(server, id).await.version;
    let request = proto::RedriveEntryRequest {
        key: key("c", id),
        request_id: format!("redrive {id}"),
        expected_version,
        reason: "tests".into(),
        ..Default::default()
    };
    server.admin.redrive_entry(request).await.unwrap();
    retried(server, [id.to_owned()], kind).await;
}

async fn operation_parks_no_entry_a_second_time(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..3), FailureKind::Retryable).await;
    server.advance(Span::from_secs(1)).await;
    let first = parks(&mut server, park("op-1")).await.unwrap();
    assert_eq!((first.changed, first.finished), (3, true));
    // In the microsecond of the operation, and later.
    for (id, seconds) in [("m000", 0), ("m001", 5)] {
        server.advance(Span::from_secs(seconds)).await;
        fails_again(&mut server, id, FailureKind::Retryable).await;
        let again = parks(&mut server, park("op-1")).await.unwrap();
        assert_eq!((again.changed, again.finished), (3, true), "{id}");
        assert_eq!(entry(&mut server, id).await.state(), EntryState::FailedRetryable, "{id}");
        assert_eq!(audit(&mut server, "PARK").await.len(), 3, "{id}");
    }
    server.advance(Span::from_secs(1)).await;
    let other = parks(&mut server, park("op-2")).await.unwrap();
    assert_eq!(other.changed, 2, "another operation parks them");
    server.stop().await;
}

async fn operation_resolves_no_entry_a_second_time(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..3), FailureKind::Park).await;
    server.advance(Span::from_secs(1)).await;
    let request = || resolve("op-1", EntryState::Received);
    let first = resolves(&mut server, request()).await.unwrap();
    assert_eq!((first.changed, first.finished), (3, true));
    for (id, seconds) in [("m000", 0), ("m001", 5)] {
        server.advance(Span::from_secs(seconds)).await;
        retried(&mut server, [id.to_owned()], FailureKind::Park).await;
        let again = resolves(&mut server, request()).await.unwrap();
        assert_eq!((again.changed, again.finished), (3, true), "{id}");
        assert_eq!(entry(&mut server, id).await.state(), EntryState::Parked, "{id}");
        assert_eq!(audit(&mut server, "RESOLVE_RECEIVED").await.len(), 3, "{id}");
    }
    server.advance(Span::from_secs(1)).await;
    let other = resolves(&mut server, resolve("op-2", EntryState::Received)).await.unwrap();
    assert_eq!(other.changed, 2, "another operation resolves them");
    acquired(&server.client.claim(claim("c", "m000")).await.unwrap().into_inner());
    server.stop().await;
}

async fn faulty(kind: Kind) -> (TestServer, Arc<Plan>) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    (TestServer::on(at, Setup::default()).await, plan)
}

/// The writes of an operation before the one whose answer is lost: none, the operation's own event, and three entries.
const BEFORE: [usize; 3] = [0, 1, 4];

/// These faults, after this number of writes.
fn after(before: usize, faults: &[Inject]) -> Vec<Inject> {
    [vec![Inject::Nothing; before], faults.to_vec()].concat()
}

async fn park_whose_answer_is_lost_is_counted_one_time(kind: Kind) {
    for before in BEFORE {
        let (mut server, plan) = faulty(kind).await;
        retried(&mut server, numbered(0..6), FailureKind::Retryable).await;
        server.advance(Span::from_secs(1)).await;
        plan.next(after(before, &[Inject::LostAnswer]));
        let ended = parks(&mut server, park("op")).await.unwrap();
        assert_eq!((ended.changed, ended.refused, ended.finished), (6, 0, true), "{before}");
        let keys: std::collections::BTreeSet<String> =
            audit(&mut server, "PARK").await.into_iter().map(|event| event.key_hash).collect();
        assert_eq!((keys.len(), audit(&mut server, "PARK").await.len()), (6, 6), "{before}");
        assert_eq!(audit(&mut server, "PARK_ENTRIES").await.len(), 1, "{before}");
        server.stop().await;
    }
}

async fn resolve_whose_answer_is_lost_is_counted_one_time(kind: Kind) {
    for before in BEFORE {
        let (mut server, plan) = faulty(kind).await;
        retried(&mut server, numbered(0..6), FailureKind::Park).await;
        server.advance(Span::from_secs(1)).await;
        let request = || resolve("op", EntryState::FailedTerminal);
        // Nothing is sent by the first try, and the answer of the second one is lost: a repeat of the call goes on.
        plan.next(after(before, &[Inject::LostRequest, Inject::LostAnswer]));
        let refused = resolves(&mut server, request()).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "OUTCOME_UNKNOWN", "{before}");
        let ended = resolves(&mut server, request()).await.unwrap();
        assert_eq!((ended.changed, ended.refused, ended.finished), (6, 0, true), "{before}");
        let events = audit(&mut server, "RESOLVE_FAILED_TERMINAL").await;
        let keys: std::collections::BTreeSet<&String> = events.iter().map(|event| &event.key_hash).collect();
        assert_eq!((keys.len(), events.len()), (6, 6), "{before}");
        server.stop().await;
    }
}
