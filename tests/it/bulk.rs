//! Operations on many entries: each is carried out once, whatever is broken off and repeated; what is
//! refused is said; nothing that exists is overwritten.

mod changes;
pub(crate) mod imports;
mod killed;
mod once;
mod places;

use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto::{
    self, EntryFilter, EntryState, FailureKind, RedriveEntriesRequest, RedriveEntriesResponse,
};
use tonic::Status;

use self::imports::{imported, part, row};
use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_both_stores!(
    what_fits_is_redriven_once_with_an_event_each,
    a_dry_run_changes_nothing,
    a_claim_that_ran_out_may_have_had_its_effect,
    a_maximum_holds_over_all_calls_of_an_operation,
    an_operation_takes_only_what_stood_there_when_it_began,
    an_operation_that_breaks_off_goes_on,
    an_operation_ends_when_the_server_drains,
    malformed_redrives_are_refused_by_field,
    ages_count_from_the_first_call_of_an_operation,
    an_operation_counts_its_own_entries_only,
);

/// Somebody holds a row: it is refused, and the others are redriven.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_row_does_not_hold_up_the_others() {
    let mut server = TestServer::start(Kind::Postgres).await;
    park(&mut server, numbered(0..4)).await;
    let database = server.at.database.clone().unwrap();
    let mut other = crate::harness::postgres::shared().connect(&database).await;
    sqlx::Executor::execute(&mut other, "BEGIN").await.unwrap();
    let hold = "SELECT 1 FROM ledger.entries WHERE id = 'm000' FOR UPDATE";
    sqlx::Executor::execute(&mut other, hold).await.unwrap();
    let ended = whole(&mut server, redrive("op-1")).await;
    assert_eq!((ended.redriven, ended.refused), (3, 1));
    let refused = ended.outcomes.iter().find(|outcome| !outcome.redriven).unwrap();
    assert_eq!(refused.rejected.as_ref().unwrap().reason(), proto::ErrorReason::Overloaded);
    sqlx::Connection::close(other).await.unwrap();
    let ended = whole(&mut server, redrive("op-1")).await;
    assert_eq!((ended.redriven, ended.refused), (4, 0), "the repeat takes it");
    server.stop().await;
}

/// `n` messages that wait for a person.
async fn park(server: &mut TestServer, ids: impl IntoIterator<Item = String>) {
    for id in ids {
        let held = acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner());
        let fail = proto::FailRequest {
            key: key("c", &id),
            token: held.token,
            kind: FailureKind::Park.into(),
            error: "poison".into(),
            ..Default::default()
        };
        server.client.fail(fail).await.unwrap();
    }
}

fn numbered(range: std::ops::Range<i32>) -> impl Iterator<Item = String> {
    range.map(|number| format!("m{number:03}"))
}

pub(crate) fn redrive(operation: &str) -> RedriveEntriesRequest {
    RedriveEntriesRequest {
        filter: Some(EntryFilter {
            consumer: "c".into(),
            states: vec![EntryState::Parked.into()],
            ..Default::default()
        }),
        operation_id: operation.into(),
        reason: "the provider is back".into(),
        rate: 1_000,
        ..Default::default()
    }
}

async fn told(
    server: &mut TestServer,
    request: RedriveEntriesRequest,
) -> Vec<Result<RedriveEntriesResponse, Status>> {
    server.admin.redrive_entries(request).await.unwrap().into_inner().collect().await
}

/// All that an operation tells, which ends well.
async fn whole(server: &mut TestServer, request: RedriveEntriesRequest) -> RedriveEntriesResponse {
    let told = told(server, request).await;
    let mut last = RedriveEntriesResponse::default();
    for one in told {
        let one = one.unwrap();
        assert!(!last.finished && one.redriven >= last.redriven && one.outcomes.len() <= 1_000);
        let outcomes = last.outcomes;
        last = RedriveEntriesResponse { outcomes: [outcomes, one.outcomes.clone()].concat(), ..one };
    }
    assert!(last.finished && last.at_most_left == 0, "{last:?}");
    last
}

async fn states(server: &mut TestServer) -> Vec<(i32, i64)> {
    let request = proto::SummarizeEntriesRequest { consumer: "c".into(), ..Default::default() };
    let summary = server.admin.summarize_entries(request).await.unwrap().into_inner();
    summary.consumers[0].states.iter().map(|state| (state.state, state.count)).collect()
}

async fn audit(server: &mut TestServer, action: &str) -> Vec<proto::AuditEvent> {
    let request = proto::ListAuditEventsRequest { page_size: 1_000, ..Default::default() };
    let events = server.admin.list_audit_events(request).await.unwrap().into_inner().events;
    events.into_iter().filter(|event| event.action == action).collect()
}

async fn what_fits_is_redriven_once_with_an_event_each(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..230)).await;
    // Held once more and parked by its operator: its holder may be at work, so that it needs force.
    let held = acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    let version = {
        let request = proto::GetEntryRequest { key: key("c", "held"), ..Default::default() };
        server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap().version
    };
    let request = proto::ParkEntryRequest {
        key: key("c", "held"),
        request_id: "park".into(),
        expected_version: version,
        reason: "looks wrong".into(),
    };
    server.admin.park_entry(request).await.unwrap();
    let ended = whole(&mut server, redrive("op-1")).await;
    assert_eq!((ended.redriven, ended.refused, ended.maximum_reached), (230, 1, false));
    assert_eq!(ended.outcomes.len(), 231);
    let refused: Vec<_> = ended.outcomes.iter().filter(|outcome| !outcome.redriven).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].key.as_ref().unwrap().id, "held");
    let rejected = refused[0].rejected.as_ref().unwrap();
    assert_eq!(rejected.reason(), proto::ErrorReason::StateNotAllowed);
    assert!(rejected.message.contains("force"));
    assert_eq!(states(&mut server).await, [(1, 230), (6, 1)]);
    assert_eq!(
        (audit(&mut server, "REDRIVE").await.len(), audit(&mut server, "REDRIVE_ENTRIES").await.len()),
        (230, 1)
    );
    // Each may be claimed again.
    let again = acquired(&server.client.claim(claim("c", "m007")).await.unwrap().into_inner());
    assert!(again.attempt == 1 && again.token > held.token - 1_000_000);
    // The same again finds nothing more to do.
    let repeat = whole(&mut server, redrive("op-1")).await;
    assert_eq!((repeat.redriven, repeat.outcomes.len()), (230, 1), "what was refused is looked at again");
    assert_eq!(audit(&mut server, "REDRIVE").await.len(), 230);
    server.stop().await;
}

async fn a_dry_run_changes_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..12)).await;
    let ended = whole(&mut server, RedriveEntriesRequest { dry_run: true, ..redrive("op-1") }).await;
    assert_eq!((ended.redriven, ended.outcomes.len()), (12, 12));
    assert!(
        ended
            .outcomes
            .iter()
            .all(|outcome| outcome.redriven && outcome.cause() == proto::ParkCause::Consumer)
    );
    assert_eq!(states(&mut server).await, [(6, 12)]);
    assert!(
        audit(&mut server, "REDRIVE").await.is_empty()
            && audit(&mut server, "REDRIVE_ENTRIES").await.is_empty()
    );
    let few = RedriveEntriesRequest { dry_run: true, maximum: 5, ..redrive("op-1") };
    let ended = whole(&mut server, few).await;
    assert_eq!((ended.redriven, ended.maximum_reached), (5, true));
    server.stop().await;
}

async fn a_claim_that_ran_out_may_have_had_its_effect(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    acquired(&server.client.claim(claim("c", "m000")).await.unwrap().into_inner());
    server.advance(Span::from_secs(60)).await;
    let filter = EntryFilter {
        consumer: "c".into(),
        states: vec![EntryState::InProgress.into()],
        expired: true,
        ..Default::default()
    };
    let ended = whole(&mut server, RedriveEntriesRequest { filter: Some(filter), ..redrive("op-1") }).await;
    assert_eq!((ended.redriven, ended.outcomes.len()), (1, 1));
    assert!(ended.outcomes[0].effect_doubtful);
    server.stop().await;
}

async fn a_maximum_holds_over_all_calls_of_an_operation(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..10)).await;
    let request = RedriveEntriesRequest { maximum: 4, ..redrive("op-1") };
    for (maximum, redriven, reached) in [(4, 4, true), (4, 4, true), (6, 6, true), (100, 10, false)] {
        let ended = whole(&mut server, RedriveEntriesRequest { maximum, ..request.clone() }).await;
        assert_eq!((ended.redriven, ended.maximum_reached), (redriven, reached), "{maximum}");
        assert_eq!(audit(&mut server, "REDRIVE").await.len(), usize::try_from(redriven).unwrap());
    }
    server.stop().await;
}

async fn an_operation_takes_only_what_stood_there_when_it_began(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..3)).await;
    server.advance(Span::from_secs(1)).await;
    let ended = whole(&mut server, redrive("op-1")).await;
    assert_eq!(ended.redriven, 3);
    server.advance(Span::from_secs(1)).await;
    // One is parked again, and others for the first time.
    park(&mut server, numbered(0..1)).await;
    park(&mut server, numbered(5..8)).await;
    let ended = whole(&mut server, redrive("op-1")).await;
    assert_eq!((ended.redriven, ended.outcomes.len()), (3, 0), "they are left for another operation");
    let ended = whole(&mut server, redrive("op-2")).await;
    assert_eq!(ended.redriven, 4);
    server.stop().await;
}

async fn an_operation_that_breaks_off_goes_on(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default()).await;
    park(&mut server, numbered(0..10)).await;
    // The operation's own event; the first entry; the answer of the second is lost.
    for (fault, done) in [(Inject::LostAnswer, 1_usize), (Inject::LostRequest, 1)] {
        // The server tries once more by itself: both tries must break.
        let mut stream = server
            .admin
            .redrive_entries(RedriveEntriesRequest { rate: 1, maximum: 1, ..redrive(&format!("{fault:?}")) })
            .await
            .unwrap()
            .into_inner();
        while stream.next().await.is_some() {}
        assert_eq!(audit(&mut server, "REDRIVE").await.len() % 2, done % 2);
        plan.next([Inject::LostRequest, fault]);
        let request = RedriveEntriesRequest { maximum: 2, ..redrive(&format!("{fault:?}")) };
        let told = told(&mut server, request.clone()).await;
        let refused = refusal(told.last().unwrap().as_ref().unwrap_err());
        assert_eq!(refused.reason, "OUTCOME_UNKNOWN");
        let ended = whole(&mut server, request).await;
        assert_eq!((ended.redriven, ended.maximum_reached), (2, true), "{fault:?}");
        assert_eq!(audit(&mut server, "REDRIVE").await.len() % 2, 0);
    }
    // A listener that goes away ends it; the repeat does the rest.
    let mut stream = server
        .admin
        .redrive_entries(RedriveEntriesRequest { rate: 2, ..redrive("slow") })
        .await
        .unwrap()
        .into_inner();
    let first = stream.next().await.unwrap().unwrap();
    assert!(!first.finished && first.at_most_left > 0, "{first:?}");
    drop(stream);
    let ended = whole(&mut server, redrive("slow")).await;
    assert_eq!(ended.redriven, 6);
    assert_eq!(audit(&mut server, "REDRIVE").await.len(), 10, "each of them once");
    server.stop().await;
}

async fn an_operation_ends_when_the_server_drains(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..5)).await;
    let mut stream = server
        .admin
        .redrive_entries(RedriveEntriesRequest { rate: 1, ..redrive("slow") })
        .await
        .unwrap()
        .into_inner();
    let import = stream::iter([part("i", vec![])]).chain(stream::pending());
    let mut answers = server.admin.import_entries(import).await.unwrap().into_inner();
    answers.next().await.unwrap().unwrap();
    let stopped = tokio::spawn(server.stop());
    let mut last = None;
    while let Some(told) = stream.next().await {
        last = Some(told);
    }
    assert_eq!(refusal(&last.unwrap().unwrap_err()).reason, "DRAINING");
    assert_eq!(refusal(&answers.next().await.unwrap().unwrap_err()).reason, "DRAINING");
    stopped.await.unwrap();
}

async fn malformed_redrives_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    // An id that was used: for another filter, for another kind of change.
    park(&mut server, numbered(0..2)).await;
    whole(&mut server, redrive("op")).await;
    let used = |change: fn(&mut EntryFilter)| {
        let mut request = redrive("op");
        change(request.filter.as_mut().unwrap());
        request
    };
    let wrong = RedriveEntriesRequest {
        filter: Some(EntryFilter {
            consumer: "c".into(),
            states: vec![EntryState::Completed.into()],
            ..Default::default()
        }),
        operation_id: "o".repeat(65),
        reason: "r".repeat(1_025),
        rate: 1_001,
        maximum: -1,
        ..Default::default()
    };
    let rows: [(&str, RedriveEntriesRequest, &[&str]); 6] = [
        (
            "nothing is given",
            RedriveEntriesRequest::default(),
            &["filter.consumer", "filter.states", "operation_id", "reason"],
        ),
        ("beyond each bound", wrong, &["filter.states", "operation_id", "reason", "rate", "maximum"]),
        (
            "used for another change",
            RedriveEntriesRequest { drop_fingerprint: true, ..redrive("op") },
            &["operation_id"],
        ),
        ("used for another prefix", used(|filter| filter.id_prefix = "m".into()), &["operation_id"]),
        (
            "used for another reason",
            RedriveEntriesRequest { reason: "another".into(), ..redrive("op") },
            &["operation_id"],
        ),
        ("a slash, which parts the ids of its events", redrive("op/1"), &["operation_id"]),
    ];
    for (what, request, wrong) in rows {
        let refused = server.admin.redrive_entries(request).await.unwrap_err();
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    server.stop().await;
}

async fn ages_count_from_the_first_call_of_an_operation(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..6)).await;
    server.advance(Span::from_secs(60)).await;
    let mut request = RedriveEntriesRequest { maximum: 2, ..redrive("young") };
    request.filter.as_mut().unwrap().max_age = Some(prost_types::Duration { seconds: 90, nanos: 0 });
    assert_eq!(whole(&mut server, request.clone()).await.redriven, 2);
    // An hour later they are no younger than 90 seconds; the operation goes on all the same.
    server.advance(Span::from_secs(3_600)).await;
    request.maximum = 100;
    assert_eq!(whole(&mut server, request.clone()).await.redriven, 6);
    request.operation_id = "another".into();
    assert_eq!(whole(&mut server, request).await.outcomes.len(), 0);
    server.stop().await;
}

async fn an_operation_counts_its_own_entries_only(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, numbered(0..4)).await;
    imported(&mut server, part("op", vec![row("imported")])).await;
    let single = proto::RedriveEntryRequest {
        key: key("c", "m000"),
        request_id: "op/of my own".into(),
        expected_version: server.entry(&Key::new("c", "tests", "m000")).await.unwrap().version,
        reason: "why".into(),
        ..Default::default()
    };
    let refused = server.admin.redrive_entry(single).await.unwrap_err();
    assert_eq!(fields(&refused), ["request_id"], "it would count as one of the operation's");
    let ended = whole(&mut server, RedriveEntriesRequest { maximum: 3, ..redrive("op") }).await;
    assert_eq!((ended.redriven, ended.outcomes.len()), (3, 3));
    server.stop().await;
}
