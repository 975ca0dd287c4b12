//! An entry that is completed without a claim is answered to the calls that wait for its key.

use idempotency_ledger::proto::lookup_response::Found;
use idempotency_ledger::proto::{self, EffectEvidence};

use super::{SOONER, answer, looked_up, until_waiting};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};
use crate::harness::timer::Timer;

on_both_stores!(an_import_is_answered_to_waiters, a_reconciled_effect_is_answered_to_waiters);

/// Lets a Lookup wait for an absent key, carries out a change that completes it, and expects the answer.
async fn completed_by(kind: Kind, change: impl AsyncFn(&TestServer)) {
    let server = TestServer::start(kind).await;
    let waiting = looked_up(&server, "1");
    until_waiting(&server, 1).await;
    let timer = Timer::start();
    change(&server).await;
    assert!(matches!(answer(waiting).await.found, Some(Found::Completed(_))));
    timer.within(SOONER, "a call that the change wakes");
    server.stop().await;
}

async fn an_import_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, async |server| {
        let request = proto::ImportEntriesRequest {
            operation_id: "import".into(),
            reason: "adoption".into(),
            entries: vec![proto::ImportedEntry { key: key("c", "1"), ..Default::default() }],
        };
        let requests = futures_util::stream::iter([request]);
        let mut import = server.admin.clone().import_entries(requests).await.unwrap().into_inner();
        assert_eq!(import.message().await.unwrap().unwrap().stored, 1);
    })
    .await;
}

async fn a_reconciled_effect_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, async |server| {
        let now = server.at.now().micros() / 1_000_000;
        let row = proto::ReconcileRow {
            key: key("c", "1"),
            at: Some(prost_types::Timestamp { seconds: now, nanos: 0 }),
            evidence: EffectEvidence::Guard.into(),
            ..Default::default()
        };
        let request =
            proto::ReconcileEntriesRequest { reason: "a spool".into(), dry_run: false, rows: vec![row] };
        server.admin.clone().reconcile_entries(request).await.unwrap();
    })
    .await;
}
