//! Effects that happened while the ledger could not be reached: the table of docs/contract.md, section 6, over the wire, on
//! both stores; what is known already, and what one bad row does to the others.

mod faults;
mod large;
mod overlaps;
mod refused;

use bytes::Bytes;
use idempotency_ledger::domain::{Entry, Key, ParkCause, Policy, Span, State, StoreTime};
use idempotency_ledger::proto::{
    self, EffectEvidence, FailureKind, ReconcileEntriesRequest, ReconcileOutcome, ReconcileResult,
    ReconcileRow,
};
use tonic::Status;

use crate::harness::details::{acquired, claim, completed, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(
    each_row_of_the_table_has_its_outcome_and_its_event,
    the_same_row_again_is_known_whatever_became_of_its_entry,
    another_row_with_the_same_key_and_instant_is_refused,
    a_spool_without_an_end_parks_until_its_end_is_there,
    a_dry_run_changes_nothing,
    a_row_as_old_as_the_retention_is_not_stored,
);

/// The instant of most rows: a minute before the server's clock.
const AT: StoreTime = StoreTime(START.0 - 60_000_000);

fn instant(at: StoreTime) -> Option<prost_types::Timestamp> {
    let nanos = i32::try_from(at.micros() % 1_000_000).unwrap() * 1_000;
    Some(prost_types::Timestamp { seconds: at.micros() / 1_000_000, nanos })
}

fn row(id: &str, evidence: EffectEvidence) -> ReconcileRow {
    ReconcileRow { key: key("c", id), at: instant(AT), evidence: evidence.into(), ..Default::default() }
}

fn request(rows: Vec<ReconcileRow>) -> ReconcileEntriesRequest {
    ReconcileEntriesRequest { reason: "the ledger was away".into(), dry_run: false, rows }
}

async fn answered(
    server: &TestServer,
    request: ReconcileEntriesRequest,
) -> Result<Vec<ReconcileResult>, Status> {
    let answer = server.admin.clone().reconcile_entries(request).await?;
    Ok(answer.into_inner().results)
}

/// The outcome of one row.
async fn reconciled(server: &TestServer, row: ReconcileRow) -> ReconcileOutcome {
    let results = answered(server, request(vec![row])).await.unwrap();
    assert!(results.len() == 1 && results[0].rejected.is_none(), "{results:?}");
    results[0].outcome()
}

async fn entry(server: &TestServer, id: &str) -> Option<Entry> {
    server.entry(&Key::new("c", "tests", id)).await
}

async fn events(server: &TestServer) -> Vec<proto::AuditEvent> {
    let request = proto::ListAuditEventsRequest { page_size: 1_000, ..Default::default() };
    let events = server.admin.clone().list_audit_events(request).await.unwrap().into_inner().events;
    events.into_iter().filter(|event| event.action.starts_with("RECONCILE_")).collect()
}

/// The states that a row may meet, each under an id that names it.
async fn meet(server: &mut TestServer) {
    let fail = |id: &str, token, kind: FailureKind| proto::FailRequest {
        key: key("c", id),
        token,
        kind: kind.into(),
        error: "no".into(),
        retry_after: None,
        event_type: String::new(),
    };
    for (id, kind) in [
        ("retryable", FailureKind::Retryable),
        ("parked", FailureKind::Park),
        ("terminal", FailureKind::Terminal),
    ] {
        let held = acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner());
        server.client.fail(fail(id, held.token, kind)).await.unwrap();
    }
    let held = acquired(&server.client.claim(claim("c", "released")).await.unwrap().into_inner());
    let release = proto::ReleaseRequest {
        key: key("c", "released"),
        token: held.token,
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    server.client.release(release).await.unwrap();
    let held = acquired(&server.client.claim(claim("c", "completed")).await.unwrap().into_inner());
    let complete = proto::CompleteRequest {
        key: key("c", "completed"),
        token: held.token,
        result: Bytes::from_static(b"first"),
        ..Default::default()
    };
    server.client.complete(complete).await.unwrap();
    let printed = proto::ClaimRequest { fingerprint: Bytes::from_static(b"A"), ..claim("c", "printed") };
    let held = acquired(&server.client.claim(printed).await.unwrap().into_inner());
    server.client.fail(fail("printed", held.token, FailureKind::Retryable)).await.unwrap();
    acquired(&server.client.claim(claim("c", "expired")).await.unwrap().into_inner());
    // Beyond lease and grace of all claims so far.
    server.advance(Span::from_secs(120)).await;
    acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
}

/// The entry that a row met, the outcome of a guard's row, of a spool's, and of one without an end.
type Line = (&'static str, [ReconcileOutcome; 3]);

async fn each_row_of_the_table_has_its_outcome_and_its_event(kind: Kind) {
    use ReconcileOutcome as Is;
    let table: &[Line] = &[
        ("absent", [Is::Completed, Is::Completed, Is::Parked]),
        ("released", [Is::Resolved, Is::Resolved, Is::Parked]),
        ("retryable", [Is::Resolved, Is::Resolved, Is::Parked]),
        ("parked", [Is::Resolved, Is::Resolved, Is::Parked]),
        ("expired", [Is::Resolved, Is::Resolved, Is::Parked]),
        ("held", [Is::NotNow; 3]),
        ("completed", [Is::Confirmed, Is::Doubled, Is::Doubled]),
        ("terminal", [Is::Contradicts; 3]),
        ("printed", [Is::Mismatch; 3]),
    ];
    let evidences = [EffectEvidence::Guard, EffectEvidence::Spool, EffectEvidence::SpoolUnfinished];
    for (column, evidence) in evidences.into_iter().enumerate() {
        let mut server = TestServer::start(kind).await;
        meet(&mut server).await;
        let before =
            server.entries(&table.iter().map(|(id, _)| Key::new("c", "tests", id)).collect::<Vec<_>>()).await;
        let result = if evidence == EffectEvidence::SpoolUnfinished { "" } else { "R" };
        let rows: Vec<_> = table
            .iter()
            .map(|(id, _)| ReconcileRow {
                result: Bytes::from_static(result.as_bytes()),
                fingerprint: Bytes::from_static(b"B"),
                ..row(id, evidence)
            })
            .collect();
        let results = answered(&server, request(rows)).await.unwrap();
        assert_eq!(results.len(), table.len());
        let mut changed = Vec::new();
        for (((id, outcomes), result), before) in table.iter().zip(&results).zip(before) {
            let expected = outcomes[column];
            assert_eq!((result.outcome(), &result.rejected), (expected, &None), "{evidence:?} of {id}");
            // What remains of a lease of 30 s and a grace of 1 s.
            let left = (expected == Is::NotNow).then_some(prost_types::Duration { seconds: 31, nanos: 0 });
            assert_eq!(result.retry_after, left, "{id}");
            let after = entry(&server, id).await;
            if [Is::Completed, Is::Resolved, Is::Parked, Is::Doubled].contains(&expected) {
                changed.push(*id);
                let after = after.unwrap();
                assert!(before.as_ref().is_none_or(|before| after.version == before.version + 1), "{id}");
                became(id, expected, before.as_ref(), &after);
            } else {
                assert_eq!(after, before, "{evidence:?} of {id} changes nothing");
            }
        }
        let mut named: Vec<_> = events(&server).await.into_iter().map(|event| event.key_hash).collect();
        let mut hashes: Vec<_> =
            changed.iter().map(|id| Key::new("c", "tests", id).hash().to_string()).collect();
        named.sort();
        hashes.sort();
        assert_eq!(named, hashes, "an event each, and no other");
        let doubled = f64::from(u8::from(table[6].1[column] == Is::Doubled));
        let series = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";
        assert_eq!(server.metric(series).unwrap_or(0.0), doubled, "the alert of {evidence:?}");
        server.stop().await;
    }
}

/// What a changed entry is.
fn became(id: &str, outcome: ReconcileOutcome, before: Option<&Entry>, after: &Entry) {
    match outcome {
        ReconcileOutcome::Completed => {
            assert_eq!((after.state, &after.result[..]), (State::Completed, &b"R"[..]));
            assert_eq!((after.closed_at, &after.fingerprint[..]), (Some(AT), &b"B"[..]));
            assert_eq!(after.retain_until, Some(AT + Policy::default().retention));
        }
        ReconcileOutcome::Resolved => {
            assert_eq!((after.state, &after.result[..]), (State::Completed, &b"R"[..]), "{id}");
            assert!(after.token > before.unwrap().token && after.claimant.is_none(), "{id}");
        }
        ReconcileOutcome::Parked => {
            assert_eq!(after.state, State::Parked(ParkCause::EffectUnknown), "{id}");
            assert!(after.effect_unknown && after.effect_doubtful() && after.retain_until.is_none(), "{id}");
            assert!(before.is_none_or(|before| before.token == after.token), "{id}: its holder still counts");
        }
        _ => {
            let expected = Entry { doubled: true, version: after.version, ..before.unwrap().clone() };
            assert_eq!(*after, expected, "{id}: a mark changes nothing else");
        }
    }
}

async fn the_same_row_again_is_known_whatever_became_of_its_entry(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let spool = || row("1", EffectEvidence::Spool);
    assert_eq!(reconciled(&server, spool()).await, ReconcileOutcome::Completed);
    let stored = entry(&server, "1").await.unwrap();
    assert_eq!(reconciled(&server, spool()).await, ReconcileOutcome::Known);
    assert_eq!(entry(&server, "1").await, Some(stored.clone()), "and nothing is changed");
    // Another reason is another request with the same row.
    let other = ReconcileEntriesRequest { reason: "again".into(), ..request(vec![spool()]) };
    assert_eq!(answered(&server, other).await.unwrap()[0].outcome(), ReconcileOutcome::Known);
    let delete = proto::DeleteEntryRequest {
        key: key("c", "1"),
        request_id: "delete".into(),
        expected_version: stored.version,
        reason: "a test".into(),
        force: true,
        key_hash: String::new(),
    };
    server.advance(Span::from_secs(120)).await;
    server.admin.delete_entry(delete).await.unwrap();
    assert_eq!(
        reconciled(&server, spool()).await,
        ReconcileOutcome::Known,
        "an operator has deleted it since"
    );
    assert_eq!(entry(&server, "1").await, None);
    let events = events(&server).await;
    assert_eq!(events.len(), 1);
    // The id is that of key and instant, as the contract says.
    let name = AT.micros().to_string();
    let id = uuid::Uuid::new_v5(&Key::new("c", "tests", "1").idempotency_key(), name.as_bytes());
    assert_eq!(
        (events[0].request_id.clone(), events[0].action.as_str()),
        (format!("reconcile/{id}"), "RECONCILE_COMPLETED")
    );
    assert_eq!((events[0].reason.as_str(), events[0].consumer.as_str()), ("the ledger was away", "c"));
    assert!(events[0].after_json.contains("\"evidence\":\"SPOOL\""), "{events:?}");
    server.stop().await;
}

async fn another_row_with_the_same_key_and_instant_is_refused(kind: Kind) {
    let server = TestServer::start(kind).await;
    assert_eq!(reconciled(&server, row("1", EffectEvidence::Spool)).await, ReconcileOutcome::Completed);
    let stored = entry(&server, "1").await;
    for other in [
        row("1", EffectEvidence::Guard),
        row("1", EffectEvidence::SpoolUnfinished),
        ReconcileRow { result: Bytes::from_static(b"other"), ..row("1", EffectEvidence::Spool) },
        ReconcileRow { fingerprint: Bytes::from_static(b"other"), ..row("1", EffectEvidence::Spool) },
    ] {
        let results = answered(&server, request(vec![other])).await.unwrap();
        let rejected = results[0].rejected.as_ref().unwrap();
        assert_eq!(rejected.reason(), proto::ErrorReason::InvalidField);
        assert_eq!(rejected.field_violations[0].field, "rows[0].at");
        assert_eq!(results[0].outcome(), ReconcileOutcome::Unspecified);
    }
    assert_eq!(entry(&server, "1").await, stored);
    // At another instant it is a second effect.
    let later = ReconcileRow { at: instant(AT + Span(1)), ..row("1", EffectEvidence::Spool) };
    assert_eq!(reconciled(&server, later.clone()).await, ReconcileOutcome::Doubled);
    assert!(entry(&server, "1").await.unwrap().doubled);
    assert_eq!(reconciled(&server, later).await, ReconcileOutcome::Known);
    let third = ReconcileRow { at: instant(AT + Span(2)), ..row("1", EffectEvidence::Spool) };
    let version = entry(&server, "1").await.unwrap().version;
    assert_eq!(reconciled(&server, third).await, ReconcileOutcome::Doubled);
    assert_eq!(entry(&server, "1").await.unwrap().version, version, "it is marked already");
    let actions: Vec<_> = events(&server).await.into_iter().map(|event| event.action).collect();
    assert_eq!(actions.iter().filter(|action| *action == "RECONCILE_DOUBLED").count(), 2, "an event each");
    let series = "idempotency_ledger_doubled_effects_total{consumer=\"c\"}";
    assert_eq!(server.metric(series), Some(2.0), "an alert each");
    server.stop().await;
}

/// A spool that is read while its writer runs, and again when it has ended.
async fn a_spool_without_an_end_parks_until_its_end_is_there(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let begun = row("1", EffectEvidence::SpoolUnfinished);
    assert_eq!(reconciled(&server, begun.clone()).await, ReconcileOutcome::Parked);
    let answer = server.client.claim(claim("c", "1")).await.unwrap().into_inner();
    let Some(proto::claim_response::Verdict::Parked(parked)) = answer.verdict else { panic!("{answer:?}") };
    assert_eq!(parked.cause(), proto::ParkCause::EffectUnknown);
    assert_eq!(reconciled(&server, begun).await, ReconcileOutcome::Known);
    let ended = ReconcileRow {
        at: instant(AT + Span(5)),
        result: Bytes::from_static(b"paid"),
        ..row("1", EffectEvidence::Spool)
    };
    assert_eq!(reconciled(&server, ended).await, ReconcileOutcome::Resolved);
    let found = completed(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    assert_eq!(&found.result[..], b"paid");
    let mut actions: Vec<_> = events(&server).await.into_iter().map(|event| event.action).collect();
    actions.sort();
    assert_eq!(actions, ["RECONCILE_COMPLETED", "RECONCILE_PARKED"]);
    server.stop().await;
}

async fn a_dry_run_changes_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    meet(&mut server).await;
    let ids = ["absent", "released", "completed"];
    let keys = ids.map(|id| Key::new("c", "tests", id));
    let before = server.entries(&keys).await;
    let rows = || ids.map(|id| row(id, EffectEvidence::Spool)).to_vec();
    let dry = ReconcileEntriesRequest { dry_run: true, ..request(rows()) };
    let outcomes =
        |results: Vec<ReconcileResult>| results.iter().map(ReconcileResult::outcome).collect::<Vec<_>>();
    let expected = [ReconcileOutcome::Completed, ReconcileOutcome::Resolved, ReconcileOutcome::Doubled];
    for _ in 0..2 {
        assert_eq!(outcomes(answered(&server, dry.clone()).await.unwrap()), expected);
        assert_eq!(server.entries(&keys).await, before);
        assert!(events(&server).await.is_empty());
    }
    assert_eq!(server.metric("idempotency_ledger_doubled_effects_total{consumer=\"c\"}").unwrap_or(0.0), 0.0);
    assert_eq!(outcomes(answered(&server, request(rows())).await.unwrap()), expected);
    assert_eq!(outcomes(answered(&server, dry).await.unwrap()), [ReconcileOutcome::Known; 3]);
    server.stop().await;
}

/// As of an import; but what may have happened is kept until a person acts, however old it is.
async fn a_row_as_old_as_the_retention_is_not_stored(kind: Kind) {
    let server = TestServer::start(kind).await;
    let week = Policy::default().retention;
    let old = |id: &str, evidence| ReconcileRow { at: instant(START - week), ..row(id, evidence) };
    let outcome = reconciled(&server, old("1", EffectEvidence::Spool)).await;
    assert_eq!((outcome, entry(&server, "1").await), (ReconcileOutcome::RetentionOver, None));
    let younger = ReconcileRow { at: instant(START - week + Span(1)), ..row("2", EffectEvidence::Spool) };
    assert_eq!(reconciled(&server, younger).await, ReconcileOutcome::Completed);
    let unfinished = reconciled(&server, old("3", EffectEvidence::SpoolUnfinished)).await;
    assert_eq!(unfinished, ReconcileOutcome::Parked);
    // An instant that is not reached yet counts as now.
    let ahead = ReconcileRow { at: instant(START + week), ..row("4", EffectEvidence::Spool) };
    assert_eq!(reconciled(&server, ahead).await, ReconcileOutcome::Completed);
    assert_eq!(entry(&server, "4").await.unwrap().closed_at, Some(START));
    server.stop().await;
}
