//! Bulk park and bulk resolve: the same operation as a bulk redrive, with another change.

use futures_util::StreamExt as _;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{
    self, EntryFilter, EntryState, FailureKind, ParkEntriesRequest, ParkEntriesResponse,
    ResolveEntriesRequest, ResolveEntriesResponse,
};
use tonic::Status;

use super::{audit, numbered, redrive, states};
use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    bulk_park_parks_each_fitting_entry_once_with_an_event,
    bulk_resolve_records_the_outcome_and_the_evidence,
    bulk_changes_force_nothing,
    bulk_dry_run_changes_nothing,
    bulk_maximum_holds_over_all_calls,
    bulk_change_that_breaks_off_goes_on,
    bulk_requests_are_refused_by_field,
);

/// Messages whose first attempt has failed, and may be tried again.
pub(super) async fn retried(
    server: &mut TestServer,
    ids: impl IntoIterator<Item = String>,
    kind: FailureKind,
) {
    for id in ids {
        let held = acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner());
        let fail = proto::FailRequest {
            key: key("c", &id),
            token: held.token,
            kind: kind.into(),
            error: "provider answered 502".into(),
            ..Default::default()
        };
        server.client.fail(fail).await.unwrap();
    }
}

fn filter(states: &[EntryState]) -> Option<EntryFilter> {
    let states = states.iter().map(|state| (*state).into()).collect();
    Some(EntryFilter { consumer: "c".into(), states, ..Default::default() })
}

pub(super) fn park(operation: &str) -> ParkEntriesRequest {
    ParkEntriesRequest {
        filter: filter(&[EntryState::FailedRetryable]),
        operation_id: operation.into(),
        reason: "the provider is away".into(),
        rate: 1_000,
        ..Default::default()
    }
}

pub(super) fn resolve(operation: &str, state: EntryState) -> ResolveEntriesRequest {
    ResolveEntriesRequest {
        filter: filter(&[EntryState::Parked]),
        operation_id: operation.into(),
        reason: "reconciled".into(),
        rate: 1_000,
        state: state.into(),
        evidence: "report 4711".into(),
        ..Default::default()
    }
}

/// The whole of an operation that ends well: its last message, with all outcomes.
macro_rules! whole {
    ($server:ident.$rpc:ident($request:expr)) => {{
        let answers = $server.admin.$rpc($request).await.unwrap().into_inner();
        let reports: Vec<_> = answers.map(Result::unwrap).collect().await;
        let outcomes = reports.iter().flat_map(|one| one.outcomes.clone()).collect::<Vec<_>>();
        let mut last = reports.into_iter().next_back().unwrap();
        assert!(last.finished && last.at_most_left == 0, "{last:?}");
        last.outcomes = outcomes;
        last
    }};
}

async fn bulk_park_parks_each_fitting_entry_once_with_an_event(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..120), FailureKind::Retryable).await;
    // A claim that is open is parked too, and its holder's Complete still counts.
    let held = acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    server.advance(Span::from_secs(1)).await;
    let both = filter(&[EntryState::FailedRetryable, EntryState::InProgress]);
    let request = ParkEntriesRequest { filter: both, ..park("op-1") };
    let ended: ParkEntriesResponse = whole!(server.park_entries(request.clone()));
    assert_eq!((ended.changed, ended.refused, ended.outcomes.len()), (121, 0, 121));
    assert!(ended.outcomes.iter().all(|one| one.changed && one.rejected.is_none()));
    assert_eq!(states(&mut server).await, [(6, 121)]);
    let events = audit(&mut server, "PARK").await;
    assert_eq!(events.len(), 121);
    assert!(events.iter().all(|event| event.request_id.starts_with("op-1/") && event.actor == "anonymous"));
    let begun = audit(&mut server, "PARK_ENTRIES").await;
    assert_eq!((begun.len(), begun[0].request_id.as_str()), (1, "op-1"));
    assert!(begun[0].after_json.contains(r#""states":[2,3]"#), "{}", begun[0].after_json);
    let complete = proto::CompleteRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    server.client.complete(complete).await.unwrap();
    // The same again has nothing more to do.
    let again: ParkEntriesResponse = whole!(server.park_entries(request));
    assert_eq!((again.changed, again.refused, again.outcomes.len()), (121, 0, 0));
    assert_eq!(audit(&mut server, "PARK").await.len(), 121);
    server.stop().await;
}

async fn bulk_resolve_records_the_outcome_and_the_evidence(kind: Kind) {
    for (state, action) in [
        (EntryState::Completed, "RESOLVE_COMPLETED"),
        (EntryState::FailedTerminal, "RESOLVE_FAILED_TERMINAL"),
        (EntryState::Received, "RESOLVE_RECEIVED"),
    ] {
        let mut server = TestServer::start(kind).await;
        retried(&mut server, numbered(0..30), FailureKind::Park).await;
        server.advance(Span::from_secs(1)).await;
        let ended: ResolveEntriesResponse = whole!(server.resolve_entries(resolve("op-1", state)));
        assert_eq!((ended.changed, ended.refused, ended.outcomes.len()), (30, 0, 30), "{state:?}");
        assert_eq!(states(&mut server).await, [(i32::from(state), 30)]);
        let events = audit(&mut server, action).await;
        assert_eq!(events.len(), 30);
        assert!(events.iter().all(|event| event.after_json.contains("report 4711")), "{:?}", events[0]);
        assert_eq!(audit(&mut server, "RESOLVE_ENTRIES").await.len(), 1);
        let request = proto::GetEntryRequest { key: key("c", "m003"), ..Default::default() };
        let entry = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
        let error = if state == EntryState::FailedTerminal { "report 4711" } else { "" };
        assert_eq!(
            (entry.last_error.contains("4711"), entry.result_bytes),
            (!error.is_empty(), 0),
            "{entry:?}"
        );
        server.stop().await;
    }
}

async fn bulk_changes_force_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let held = acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    let open = ResolveEntriesRequest {
        filter: filter(&[EntryState::InProgress]),
        ..resolve("op-1", EntryState::Received)
    };
    let ended: ResolveEntriesResponse = whole!(server.resolve_entries(open.clone()));
    assert_eq!((ended.changed, ended.refused), (0, 1), "its holder may be at work");
    let refused = ended.outcomes[0].rejected.as_ref().unwrap();
    assert_eq!(refused.reason(), proto::ErrorReason::StateNotAllowed);
    assert_eq!(states(&mut server).await, [(2, 1)]);
    let renew = proto::RenewRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    server.client.renew(renew).await.unwrap();
    // When lease and grace are over the same operation goes on.
    server.advance(Span::from_secs(60)).await;
    let ended: ResolveEntriesResponse = whole!(server.resolve_entries(open));
    assert_eq!((ended.changed, ended.refused), (1, 0));
    assert!(ended.outcomes[0].effect_doubtful);
    server.stop().await;
}

async fn bulk_dry_run_changes_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..12), FailureKind::Retryable).await;
    let ended: ParkEntriesResponse =
        whole!(server.park_entries(ParkEntriesRequest { dry_run: true, ..park("op-1") }));
    assert_eq!((ended.changed, ended.outcomes.len()), (12, 12));
    let failed = filter(&[EntryState::FailedRetryable]);
    let request = ResolveEntriesRequest {
        dry_run: true,
        maximum: 5,
        filter: failed,
        ..resolve("op-1", EntryState::Completed)
    };
    let ended: ResolveEntriesResponse = whole!(server.resolve_entries(request));
    assert_eq!((ended.changed, ended.maximum_reached), (5, true));
    assert_eq!(states(&mut server).await, [(3, 12)]);
    for action in ["PARK", "PARK_ENTRIES", "RESOLVE_COMPLETED", "RESOLVE_ENTRIES"] {
        assert!(audit(&mut server, action).await.is_empty(), "{action}");
    }
    server.stop().await;
}

async fn bulk_maximum_holds_over_all_calls(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..10), FailureKind::Park).await;
    let request = resolve("op-1", EntryState::FailedTerminal);
    for (maximum, changed, reached) in [(4, 4, true), (4, 4, true), (6, 6, true), (100, 10, false)] {
        let request = ResolveEntriesRequest { maximum, ..request.clone() };
        let ended: ResolveEntriesResponse = whole!(server.resolve_entries(request));
        assert_eq!((ended.changed, ended.maximum_reached), (changed, reached), "{maximum}");
        let events = audit(&mut server, "RESOLVE_FAILED_TERMINAL").await;
        assert_eq!(events.len(), usize::try_from(changed).unwrap());
    }
    server.stop().await;
}

async fn bulk_change_that_breaks_off_goes_on(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..10), FailureKind::Retryable).await;
    // A listener that goes away ends it; the repeat does the rest.
    let slow = ParkEntriesRequest { rate: 2, ..park("slow") };
    let mut answers = server.admin.park_entries(slow).await.unwrap().into_inner();
    let first = answers.next().await.unwrap().unwrap();
    assert!(!first.finished && first.at_most_left > 0, "{first:?}");
    drop(answers);
    let ended: ParkEntriesResponse = whole!(server.park_entries(park("slow")));
    assert_eq!(ended.changed, 10);
    let keys: std::collections::HashSet<String> =
        audit(&mut server, "PARK").await.into_iter().map(|event| event.key_hash).collect();
    assert_eq!((keys.len(), audit(&mut server, "PARK").await.len()), (10, 10), "each of them once");
    server.stop().await;
}

async fn bulk_requests_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    retried(&mut server, numbered(0..2), FailureKind::Park).await;
    super::whole(&mut server, redrive("op")).await;
    let rows: [(&str, ParkEntriesRequest, &[&str]); 4] = [
        (
            "nothing is given",
            ParkEntriesRequest::default(),
            &["filter.consumer", "filter.states", "operation_id", "reason"],
        ),
        (
            "beyond each bound",
            ParkEntriesRequest {
                filter: filter(&[EntryState::Parked]),
                rate: 1_001,
                maximum: -1,
                ..park("op/1")
            },
            &["filter.states", "operation_id", "rate", "maximum"],
        ),
        (
            "completed ones",
            ParkEntriesRequest {
                filter: filter(&[EntryState::InProgress, EntryState::Completed]),
                ..park("p")
            },
            &["filter.states"],
        ),
        ("the id of a redrive", park("op"), &["operation_id"]),
    ];
    for (what, request, wrong) in rows {
        assert_eq!(fields(&server.admin.park_entries(request).await.unwrap_err()), wrong, "{what}");
    }
    let rows: [(&str, ResolveEntriesRequest, &[&str]); 4] = [
        (
            "nothing is given",
            ResolveEntriesRequest::default(),
            &["state", "filter.consumer", "filter.states", "operation_id", "reason"],
        ),
        ("no outcome", resolve("r", EntryState::Parked), &["state"]),
        (
            "completed ones",
            ResolveEntriesRequest {
                filter: filter(&[EntryState::Completed]),
                ..resolve("r", EntryState::Received)
            },
            &["filter.states"],
        ),
        ("the id of a redrive", resolve("op", EntryState::Received), &["operation_id"]),
    ];
    for (what, request, wrong) in rows {
        let refused: Status = server.admin.resolve_entries(request).await.unwrap_err();
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    // An operation belongs to its outcome and evidence.
    let first = resolve("mine", EntryState::FailedTerminal);
    let _done: ResolveEntriesResponse = whole!(server.resolve_entries(first.clone()));
    for other in [
        ResolveEntriesRequest { state: EntryState::Received.into(), ..first.clone() },
        ResolveEntriesRequest { evidence: "another".into(), ..first.clone() },
        ResolveEntriesRequest { reason: "another".into(), ..first },
    ] {
        let refused = server.admin.resolve_entries(other).await.unwrap_err();
        assert_eq!(
            (refusal(&refused).reason.as_str(), fields(&refused)),
            ("INVALID_FIELD", vec!["operation_id".into()])
        );
    }
    server.stop().await;
}
