//! An entry that an operator completes is answered to the calls that wait for its key, also to those that began to wait
//! while the change was carried out, and also where the call that asked for the change has ended before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use idempotency_ledger::proto::lookup_response::Found;
use idempotency_ledger::proto::{self, EffectEvidence, EntryState};
use tonic::IntoRequest as _;

use super::{answer, held, looked_up, until, until_waiting};
use crate::harness::details::key;
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::harness::timer::Timer;

on_both_stores!(
    an_import_is_answered_to_waiters,
    a_reconciled_effect_is_answered_to_waiters,
    import_that_outlives_its_call_is_answered_to_waiters,
    reconcile_that_outlives_its_call_is_answered_to_waiters,
    resolve_that_outlives_its_call_is_answered_to_waiters,
);

/// After so many loads of a key the next one follows a second later.
const LOADS: usize = 5;
/// Less than the time until the next load, by far.
const WOKEN: Duration = Duration::from_millis(500);
/// The deadline of a call that ends before the change that it asked for.
const DEADLINE: Duration = Duration::from_millis(300);
/// The number of times in which the answer may be late.
const ROUNDS: usize = 5;

/// The entry before the change.
#[derive(PartialEq)]
enum Entry {
    Absent,
    InProgress,
}

/// Whether the call that asks for the change waits for it, or ends before.
#[derive(PartialEq)]
enum Caller {
    Stays,
    Goes,
}

/// Lets a Lookup wait for a key while a change that completes the entry stands still. When the change goes on, the
/// answer follows it, and not the next load.
async fn completed_by(kind: Kind, entry: Entry, caller: Caller, change: impl AsyncFn(&TestServer, &str)) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: Arc::clone(&at.store), plan: Arc::clone(&plan) });
    let server = TestServer::on(at, Setup::default()).await;
    let mut late = Vec::new();
    while late.len() < ROUNDS {
        let (id, ended) = (late.len().to_string(), AtomicBool::new(false));
        if entry == Entry::InProgress {
            held(&server, &id).await;
        }
        let writes = plan.writes.load(Ordering::SeqCst);
        plan.close();
        let lookup = async {
            plan.arrived(writes + 1).await;
            let before = plan.loads.load(Ordering::SeqCst);
            let waiting = looked_up(&server, &id);
            until_waiting(&server, 1).await;
            until("the key was loaded", || plan.loads.load(Ordering::SeqCst) >= before + LOADS).await;
            if caller == Caller::Goes {
                until("the call that asked has ended", || ended.load(Ordering::SeqCst)).await;
            }
            let timer = Timer::start();
            plan.open();
            assert!(matches!(answer(waiting).await.found, Some(Found::Completed(_))));
            timer.took()
        };
        let asked = async {
            change(&server, &id).await;
            ended.store(true, Ordering::SeqCst);
        };
        let ((), took) = tokio::join!(asked, lookup);
        if took < WOKEN {
            server.stop().await;
            return;
        }
        late.push(took);
    }
    panic!("the change wakes no call: the answers took {late:?}");
}

async fn import(server: &TestServer, id: &str) {
    let request = proto::ImportEntriesRequest {
        operation_id: format!("import {id}"),
        reason: "adoption".into(),
        entries: [&format!("before {id}"), id]
            .map(|id| proto::ImportedEntry { key: key("c", id), ..Default::default() })
            .into(),
    };
    let requests = futures_util::stream::iter([request]);
    let mut import = server.admin.clone().import_entries(requests).await.unwrap().into_inner();
    assert_eq!(import.message().await.unwrap().unwrap().stored, 2);
}

async fn an_import_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, Entry::Absent, Caller::Stays, import).await;
}

/// Its client resets the call.
async fn import_that_outlives_its_call_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, Entry::Absent, Caller::Goes, async |server, id| {
        tokio::time::timeout(DEADLINE, import(server, id)).await.unwrap_err();
    })
    .await;
}

fn reconcile(server: &TestServer, id: &str) -> tonic::Request<proto::ReconcileEntriesRequest> {
    let now = server.at.now().micros() / 1_000_000;
    let row = |id: &str| proto::ReconcileRow {
        key: key("c", id),
        at: Some(prost_types::Timestamp { seconds: now, nanos: 0 }),
        evidence: EffectEvidence::Guard.into(),
        ..Default::default()
    };
    let rows = vec![row(&format!("before {id}")), row(id)];
    proto::ReconcileEntriesRequest { reason: "a spool".into(), dry_run: false, rows }.into_request()
}

async fn a_reconciled_effect_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, Entry::Absent, Caller::Stays, async |server, id| {
        server.admin.clone().reconcile_entries(reconcile(server, id)).await.unwrap();
    })
    .await;
}

async fn reconcile_that_outlives_its_call_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, Entry::Absent, Caller::Goes, async |server, id| {
        let mut request = reconcile(server, id);
        request.set_timeout(DEADLINE);
        server.admin.clone().reconcile_entries(request).await.unwrap_err();
    })
    .await;
}

async fn resolve_that_outlives_its_call_is_answered_to_waiters(kind: Kind) {
    completed_by(kind, Entry::InProgress, Caller::Goes, async |server, id| {
        let of_key = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
        let entry = server.admin.clone().get_entry(of_key).await.unwrap().into_inner().entry.unwrap();
        let request = proto::ResolveEntryRequest {
            key: entry.key,
            request_id: id.into(),
            expected_version: entry.version,
            reason: "the provider has the charge".into(),
            force: true,
            state: EntryState::Completed.into(),
            ..Default::default()
        };
        let mut request = request.into_request();
        request.set_timeout(DEADLINE);
        server.admin.clone().resolve_entry(request).await.unwrap_err();
    })
    .await;
}
