//! Rows that are at work, rows of another request, and clocks that have jumped.

use std::sync::Arc;

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{self, EffectEvidence, ReconcileOutcome, ReconcileResult};

use super::{answered, entry, events, reconciled, request, row};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer, TestStore, replica};

on_both_stores!(
    parked_entry_whose_holder_is_at_work_is_not_reconciled,
    clock_that_has_jumped_refuses_new_rows_alone,
    second_try_finds_that_another_request_wrote_one_of_its_rows,
    second_try_finds_that_another_request_wrote_all_of_its_rows,
);

fn outcomes(results: &[ReconcileResult]) -> Vec<ReconcileOutcome> {
    results.iter().map(ReconcileResult::outcome).collect()
}

async fn parked_entry_whose_holder_is_at_work_is_not_reconciled(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let request_of = proto::ParkEntryRequest {
        key: key("c", "1"),
        request_id: "park".into(),
        expected_version: entry(&server, "1").await.unwrap().version,
        reason: "looks wrong".into(),
    };
    server.admin.park_entry(request_of).await.unwrap();
    let parked = entry(&server, "1").await;
    server.advance(Span::from_secs(10)).await;
    for evidence in [EffectEvidence::Guard, EffectEvidence::Spool, EffectEvidence::SpoolUnfinished] {
        let results = answered(&server, request(vec![row("1", evidence)])).await.unwrap();
        assert_eq!(outcomes(&results), [ReconcileOutcome::NotNow], "{evidence:?}");
        // A lease of 30 s and a grace of 1 s.
        let left = results[0].retry_after.unwrap();
        assert_eq!((left.seconds, left.nanos), (21, 0), "{evidence:?}");
    }
    assert_eq!(entry(&server, "1").await, parked, "nothing is changed");
    assert!(events(&server).await.is_empty());
    server.advance(Span::from_secs(21)).await;
    assert_eq!(reconciled(&server, row("1", EffectEvidence::Spool)).await, ReconcileOutcome::Resolved);
    server.stop().await;
}

async fn clock_that_has_jumped_refuses_new_rows_alone(kind: Kind) {
    let at = TestStore::new(kind).await.judged().await;
    let mut server = TestServer::on(at, Setup::default()).await;
    acquired(&server.client.claim(claim("c", "held")).await.unwrap().into_inner());
    let known = || row("known", EffectEvidence::Spool);
    assert_eq!(reconciled(&server, known()).await, ReconcileOutcome::Completed);
    server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    server.advance(Span::from_days(368)).await;
    let held = entry(&server, "held").await;
    for rows in [
        vec![row("new", EffectEvidence::Guard)],
        vec![row("held", EffectEvidence::Spool)],
        vec![known(), row("unfinished", EffectEvidence::SpoolUnfinished)],
    ] {
        for dry_run in [true, false] {
            let request = proto::ReconcileEntriesRequest { dry_run, ..request(rows.clone()) };
            let refused = answered(&server, request).await.unwrap_err();
            assert_eq!(refusal(&refused).reason, "STORE_CLOCK_AHEAD", "{rows:?}");
        }
    }
    assert_eq!(entry(&server, "held").await, held, "by this clock its lease seems over");
    assert!(entry(&server, "new").await.is_none() && entry(&server, "unfinished").await.is_none());
    assert_eq!(reconciled(&server, known()).await, ReconcileOutcome::Known, "by any clock");
    assert_eq!(events(&server).await.len(), 1);
    server.stop().await;
}

/// A request whose write is lost, while another request writes these of its rows. Returns its outcomes, from a second try.
async fn overlapped(kind: Kind, ids: &[&str], meanwhile: &[&str]) -> (Vec<ReconcileOutcome>, TestServer) {
    let server = TestServer::start(kind).await;
    let plan = Arc::new(Plan::default());
    let store = FaultyStore { inner: Arc::clone(&server.at.store), plan: Arc::clone(&plan) };
    let other = Served::start(Arc::new(store), Setup::default()).await;
    let rows = |ids: &[&str]| ids.iter().map(|id| row(id, EffectEvidence::Spool)).collect::<Vec<_>>();
    plan.next([Inject::LostRequest]);
    plan.close();
    let (mut admin, asked) = (other.admin.clone(), request(rows(ids)));
    let lost = tokio::spawn(async move { admin.reconcile_entries(asked).await });
    plan.arrived(1).await;
    let written = answered(&server, request(rows(meanwhile))).await.unwrap();
    assert!(outcomes(&written).iter().all(|one| *one == ReconcileOutcome::Completed));
    plan.open();
    let results = lost.await.unwrap().unwrap().into_inner().results;
    other.stop().await;
    (outcomes(&results), server)
}

/// One event of the write in the audit does not prove that all of them are there.
async fn second_try_finds_that_another_request_wrote_one_of_its_rows(kind: Kind) {
    let ids = ["1", "2", "3", "4"];
    for meanwhile in ids {
        let (found, server) = overlapped(kind, &ids, &[meanwhile]).await;
        let expected =
            ids.map(|id| if id == meanwhile { ReconcileOutcome::Known } else { ReconcileOutcome::Completed });
        assert_eq!(found, expected, "{meanwhile} was written by another request");
        for id in ids {
            assert!(entry(&server, id).await.is_some(), "{id} is brought in");
        }
        assert_eq!(events(&server).await.len(), 4, "an event each");
        server.stop().await;
    }
}

/// All rows of the lost write are there: whichever of the two wrote them, each is brought in one time.
async fn second_try_finds_that_another_request_wrote_all_of_its_rows(kind: Kind) {
    let (found, server) = overlapped(kind, &["1", "2"], &["1", "2"]).await;
    assert!(
        found.iter().all(|one| [ReconcileOutcome::Known, ReconcileOutcome::Completed].contains(one)),
        "{found:?}"
    );
    assert_eq!(events(&server).await.len(), 2);
    server.stop().await;
}
