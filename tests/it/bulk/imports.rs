//! Imports: what was processed before is stored as COMPLETED, once; nothing that exists is overwritten.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use idempotency_ledger::domain::{Key, Policy, Span};
use idempotency_ledger::proto::{
    self, EntryState, ImportEntriesRequest, ImportEntriesResponse, ImportedEntry,
};
use tonic::Status;

use super::{audit, numbered, park};
use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer, TestStore, replica};

on_both_stores!(
    what_was_processed_is_imported_as_completed,
    an_import_changes_nothing_that_exists,
    an_import_may_be_repeated,
    import_of_several_consumers_leaves_each_its_own_event,
    malformed_rows_are_refused_alone,
    malformed_imports_are_refused,
    an_import_ends_while_the_clock_is_behind,
);

pub(crate) fn row(id: &str) -> ImportedEntry {
    ImportedEntry { key: key("c", id), ..Default::default() }
}

pub(crate) fn part(operation: &str, entries: Vec<ImportedEntry>) -> ImportEntriesRequest {
    ImportEntriesRequest { operation_id: operation.into(), reason: "adoption".into(), entries }
}

async fn import(
    server: &mut TestServer,
    parts: Vec<ImportEntriesRequest>,
) -> Vec<Result<ImportEntriesResponse, Status>> {
    server.admin.import_entries(stream::iter(parts)).await.unwrap().into_inner().collect().await
}

pub(super) async fn imported(server: &mut TestServer, part: ImportEntriesRequest) -> ImportEntriesResponse {
    import(server, vec![part]).await.remove(0).unwrap()
}

fn instant(at: idempotency_ledger::domain::StoreTime) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: at.micros() / 1_000_000, nanos: 0 })
}

async fn what_was_processed_is_imported_as_completed(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let (day, week) = (Span::from_days(1), Policy::default().retention);
    let rows = vec![
        ImportedEntry {
            completed_at: instant(START - day),
            result: Bytes::from_static(b"paid"),
            fingerprint: Bytes::from_static(b"print"),
            ..row("old")
        },
        row("now"),
        ImportedEntry { completed_at: instant(START + day), ..row("later") },
        ImportedEntry { completed_at: instant(START - week), ..row("forgotten") },
    ];
    let answer = imported(&mut server, part("i", rows)).await;
    assert_eq!((answer.stored, answer.retention_over, answer.rejections.len()), (3, 1, 0));
    let request = proto::ClaimRequest { fingerprint: Bytes::from_static(b"print"), ..claim("c", "old") };
    let found = completed(&server.client.claim(request).await.unwrap().into_inner());
    assert_eq!((&found.result[..], found.attempt, found.by_this_claim), (&b"paid"[..], 0, false));
    assert_eq!(found.completed_at, instant(START - day));
    let other = proto::ClaimRequest { fingerprint: Bytes::from_static(b"other"), ..claim("c", "old") };
    let asked = server.client.claim(other).await.unwrap().into_inner();
    assert!(
        matches!(asked.verdict, Some(proto::claim_response::Verdict::FingerprintMismatch(_))),
        "{asked:?}"
    );
    for id in ["now", "later"] {
        let found = completed(&server.client.claim(claim("c", id)).await.unwrap().into_inner());
        assert_eq!(found.completed_at, instant(START), "{id}");
    }
    acquired(&server.client.claim(claim("c", "forgotten")).await.unwrap().into_inner());
    // Kept for as long as their policy says, from their completion, and then forgotten.
    let entry = server.entry(&Key::new("c", "tests", "old")).await.unwrap();
    assert_eq!(entry.retain_until, Some(START - day + week));
    assert_eq!((entry.attempts, entry.claimant.is_none()), (0, true));
    let events = audit(&mut server, "IMPORT_ENTRIES").await;
    assert_eq!((events.len(), events[0].consumer.as_str()), (1, "c"));
    assert!(events[0].after_json.contains("\"stored\":3") && events[0].request_id.starts_with("i/"));
    server.stop().await;
}

async fn an_import_changes_nothing_that_exists(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    park(&mut server, ["parked".to_owned()]).await;
    let held = acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    let done = acquired(&server.client.claim(claim("c", "done")).await.unwrap().into_inner());
    let complete = proto::CompleteRequest {
        key: key("c", "done"),
        token: done.token,
        result: Bytes::from_static(b"1"),
        result_left_out: false,
        event_type: String::new(),
    };
    server.client.complete(complete).await.unwrap();
    let keys: Vec<Key> = ["parked", "held", "done"].map(|id| Key::new("c", "tests", id)).to_vec();
    let before = server.entries(&keys).await;
    let rows = ["new", "parked", "held", "done"]
        .map(|id| ImportedEntry { result: Bytes::from_static(b"other"), ..row(id) });
    let answer = imported(&mut server, part("i", rows.to_vec())).await;
    assert_eq!((answer.stored, answer.already_completed), (1, 1));
    let refused: Vec<(i32, EntryState)> = answer
        .rejections
        .iter()
        .map(|one| {
            let rejected = one.rejected.as_ref().unwrap();
            assert_eq!(rejected.reason(), proto::ErrorReason::StateNotAllowed);
            (one.index, rejected.current_state())
        })
        .collect();
    assert_eq!(refused, [(1, EntryState::Parked), (2, EntryState::InProgress)]);
    assert_eq!(server.entries(&keys).await, before);
    let complete = proto::CompleteRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    server.client.complete(complete).await.unwrap();
    server.stop().await;
}

async fn an_import_may_be_repeated(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default()).await;
    let rows = |range| numbered(range).map(|id| row(&id)).collect::<Vec<_>>();
    // A message without rows keeps the stream open.
    let parts = vec![
        part("i", rows(0..300)),
        part("i", vec![]),
        part("i", rows(300..500)),
        part("i", rows(500..501)),
    ];
    let answers = import(&mut server, parts.clone()).await;
    let stored: Vec<i64> = answers.into_iter().map(|answer| answer.unwrap().stored).collect();
    assert_eq!(stored, [300, 0, 200, 1]);
    for answer in import(&mut server, parts).await {
        let answer = answer.unwrap();
        assert_eq!((answer.stored, answer.rejections.len()), (0, 0));
    }
    assert_eq!(audit(&mut server, "IMPORT_ENTRIES").await.len(), 3, "a repeat stores nothing");
    // An answer that is lost on the way: the same part again, cut otherwise.
    // The server tries once more by itself: both tries must break.
    plan.next([Inject::LostRequest, Inject::LostAnswer]);
    let refused = import(&mut server, vec![part("j", rows(500..520)), part("j", rows(520..530))]).await;
    assert_eq!(refused.len(), 1, "the first that fails is the last");
    assert_eq!(refusal(refused[0].as_ref().unwrap_err()).reason, "OUTCOME_UNKNOWN");
    let again = imported(&mut server, part("j", rows(510..530))).await;
    assert_eq!((again.stored, again.already_completed), (10, 10));
    plan.next([Inject::LostRequest; 2]);
    let refused = import(&mut server, vec![part("j", rows(530..540))]).await;
    assert_eq!(refusal(refused[0].as_ref().unwrap_err()).reason, "OUTCOME_UNKNOWN");
    assert_eq!(imported(&mut server, part("j", rows(530..540))).await.stored, 10);
    assert_eq!(audit(&mut server, "IMPORT_ENTRIES").await.len(), 6);
    server.stop().await;
}

async fn malformed_rows_are_refused_alone(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let rows = vec![
        row("good"),
        ImportedEntry::default(),
        ImportedEntry { result: vec![0; 16_385].into(), ..row("large") },
        row("good"),
        ImportedEntry {
            completed_at: Some(prost_types::Timestamp { seconds: 0, nanos: -1 }),
            fingerprint: vec![0; 65].into(),
            ..row("wrong")
        },
        row("good too"),
    ];
    let answer = imported(&mut server, part("i", rows)).await;
    assert_eq!(answer.stored, 2);
    let refused: Vec<(i32, Vec<String>)> = answer
        .rejections
        .into_iter()
        .map(|one| {
            let violations = one.rejected.unwrap().field_violations;
            (one.index, violations.into_iter().map(|violation| violation.field).collect())
        })
        .collect();
    let expected = [
        (1, vec!["entries[1].key"]),
        (2, vec!["entries[2].result"]),
        (3, vec!["entries[3].key"]),
        (4, vec!["entries[4].completed_at", "entries[4].fingerprint"]),
    ];
    assert_eq!(refused.len(), 4);
    for (refused, expected) in refused.iter().zip(expected) {
        assert_eq!((refused.0, refused.1.iter().map(String::as_str).collect::<Vec<_>>()), expected);
    }
    server.stop().await;
}

async fn malformed_imports_are_refused(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let many = numbered(0..1_001).map(|id| row(&id)).collect();
    let large =
        (0..300).map(|number| ImportedEntry { result: vec![0; 16_000].into(), ..row(&number.to_string()) });
    let rows: [(&str, ImportEntriesRequest, &str, &[&str]); 4] = [
        ("nothing is given", ImportEntriesRequest::default(), "INVALID_FIELD", &["operation_id", "reason"]),
        (
            "a slash, which parts the ids of its events",
            part("op/1", vec![]),
            "INVALID_FIELD",
            &["operation_id"],
        ),
        ("too many rows", part("i", many), "TOO_MANY_ITEMS", &["entries"]),
        ("too many bytes", part("i", large.collect()), "TOO_LARGE", &[]),
    ];
    for (what, part, reason, wrong) in rows {
        let refused = import(&mut server, vec![part]).await.remove(0).unwrap_err();
        assert_eq!(refusal(&refused).reason, reason, "{what}");
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    assert!(import(&mut server, vec![]).await.is_empty());
    assert!(audit(&mut server, "IMPORT_ENTRIES").await.is_empty());
    server.stop().await;
}

/// Nothing is skipped for it: the call ends, and its repeat stores all.
async fn an_import_ends_while_the_clock_is_behind(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    imported(&mut server, part("i", vec![row("before")])).await;
    server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    server.advance(Span::from_secs(-3_600)).await;
    let refused = import(&mut server, vec![part("i", vec![row("1"), row("2")])]).await.remove(0).unwrap_err();
    assert_eq!(refusal(&refused).reason, "STORE_CLOCK_BEHIND");
    assert_eq!(imported(&mut server, part("i", vec![row("before")])).await.already_completed, 1);
    server.advance(Span::from_secs(3_601)).await;
    assert_eq!(imported(&mut server, part("i", vec![row("1"), row("2")])).await.stored, 2);
    server.stop().await;
}

async fn import_of_several_consumers_leaves_each_its_own_event(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default()).await;
    let of = |consumer: &str, id: &str| ImportedEntry { key: key(consumer, id), ..Default::default() };
    let week = instant(START - Policy::default().retention);
    let rows = vec![
        of("b", "1"),
        of("a", "1"),
        of("b", "2"),
        ImportedEntry { completed_at: week, ..of("over", "1") },
        of("b", "3"),
    ];
    // The first try is carried out, and its answer is lost: the second one finds its events.
    plan.next([Inject::LostAnswer]);
    let answer = imported(&mut server, part("i", rows.clone())).await;
    assert_eq!((answer.stored, answer.already_completed, answer.retention_over), (4, 0, 1));
    let again = imported(&mut server, part("i", [rows, vec![of("b", "4"), of("d", "1")]].concat())).await;
    assert_eq!((again.stored, again.already_completed), (2, 4));
    // What was stored of each consumer, and nothing of the others.
    for (consumer, mut stored) in
        [("a", vec![1]), ("b", vec![3, 1]), ("d", vec![1]), ("over", vec![]), ("", vec![1, 1, 1, 3])]
    {
        let request = proto::ListAuditEventsRequest { consumer: consumer.into(), ..Default::default() };
        let events = server.admin.list_audit_events(request).await.unwrap().into_inner().events;
        assert!(events.iter().all(|event| consumer.is_empty() || event.consumer == consumer), "{events:?}");
        assert!(events.iter().all(|event| event.request_id.starts_with("i/")), "{events:?}");
        let mut told: Vec<i64> = events
            .iter()
            .map(|event| serde_json::from_str::<serde_json::Value>(&event.after_json).unwrap())
            .map(|after| after["stored"].as_i64().unwrap())
            .collect();
        told.sort_unstable();
        stored.sort_unstable();
        assert_eq!(told, stored, "{consumer}");
    }
    // Another reason is another import, for the consumers that have a part of this one.
    let other = |rows| ImportEntriesRequest { reason: "another".into(), ..part("i", rows) };
    let refused = import(&mut server, vec![other(vec![of("new", "1"), of("a", "2")])]).await.remove(0);
    assert_eq!(fields(&refused.unwrap_err()), ["operation_id"]);
    assert_eq!(server.entry(&Key::new("new", "tests", "1")).await, None, "nothing of it was stored");
    assert_eq!(imported(&mut server, other(vec![of("new", "1")])).await.stored, 1);
    // A message for both is refused, whichever of the two reasons it has.
    let both = || vec![of("a", "2"), of("new", "2")];
    for mixed in [part("i", both()), other(both())] {
        let reason = mixed.reason.clone();
        let refused = import(&mut server, vec![mixed]).await.remove(0);
        assert_eq!(fields(&refused.expect_err(&reason)), ["operation_id"], "{reason}");
    }
    for consumer in ["a", "new"] {
        assert_eq!(server.entry(&Key::new(consumer, "tests", "2")).await, None, "{consumer}");
    }
    server.stop().await;
}
