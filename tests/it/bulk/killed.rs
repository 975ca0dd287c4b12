//! Bulk changes while their server is killed again and again: each entry is changed one time, and has one event.

use std::collections::BTreeMap;

use futures_util::StreamExt as _;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{self, EntryFilter, EntryState, FailureKind};
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, key};
use crate::harness::postgres as pg;
use crate::process::{Server, sqlite};

/// Number of messages.
const ALL: usize = 120;
/// How often the server is killed amid the operation.
const KILLS: usize = 3;

/// Which change.
#[derive(Clone, Copy, Debug)]
enum Change {
    Park,
    Resolve,
}

impl Change {
    /// The state from which it starts, and how a message gets there.
    fn from(self) -> (EntryState, FailureKind) {
        match self {
            Change::Park => (EntryState::FailedRetryable, FailureKind::Retryable),
            Change::Resolve => (EntryState::Parked, FailureKind::Park),
        }
    }

    fn to(self) -> (EntryState, &'static str) {
        match self {
            Change::Park => (EntryState::Parked, "PARK"),
            Change::Resolve => (EntryState::FailedTerminal, "RESOLVE_FAILED_TERMINAL"),
        }
    }

    /// Runs the operation at this rate, until this number of entries is reported as changed, or to its end; returns the
    /// reported number.
    async fn run(self, admin: &mut AdminServiceClient<Channel>, rate: i32, until: i64) -> i64 {
        let filter = Some(EntryFilter {
            consumer: "c".into(),
            states: vec![self.from().0.into()],
            ..Default::default()
        });
        let (operation_id, reason) = ("op".to_owned(), "why".to_owned());
        macro_rules! follow {
            ($answers:expr) => {{
                let (mut answers, mut changed) = ($answers.await.unwrap().into_inner(), 0);
                while let Some(answer) = answers.next().await {
                    let answer = answer.unwrap();
                    changed = answer.changed;
                    if answer.finished || changed >= until {
                        break;
                    }
                }
                changed
            }};
        }
        match self {
            Change::Park => {
                let request =
                    proto::ParkEntriesRequest { filter, operation_id, reason, rate, ..Default::default() };
                follow!(admin.park_entries(request))
            }
            Change::Resolve => {
                let state = EntryState::FailedTerminal.into();
                let request = proto::ResolveEntriesRequest {
                    filter,
                    operation_id,
                    reason,
                    rate,
                    state,
                    ..Default::default()
                };
                follow!(admin.resolve_entries(request))
            }
        }
    }
}

async fn admin(server: &Server) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(server.channel().await.unwrap())
}

/// Kills the server amid the operation, and continues at another one.
async fn survives(database_url: &str, change: Change) {
    let mut server = Server::start(database_url).await;
    let mut client = server.client().await;
    for number in 0..ALL {
        let id = format!("m{number}");
        let held = acquired(&client.claim(claim("c", &id)).await.unwrap().into_inner());
        let fail = proto::FailRequest {
            key: key("c", &id),
            token: held.token,
            kind: change.from().1.into(),
            ..Default::default()
        };
        client.fail(fail).await.unwrap();
    }
    let mut before = 0;
    for _ in 0..KILLS {
        let changed = change.run(&mut admin(&server).await, 10, before + 1).await;
        assert!(changed > before && changed < i64::try_from(ALL).unwrap(), "{change:?}: {changed}");
        before = changed;
        // SIGKILL.
        drop(server);
        server = Server::start(database_url).await;
    }
    let changed = change.run(&mut admin(&server).await, 1_000, i64::MAX).await;
    assert_eq!(changed, i64::try_from(ALL).unwrap(), "{change:?}: in all calls together");
    let (state, action) = change.to();
    let mut admin = admin(&server).await;
    let request = proto::ListAuditEventsRequest { page_size: 1_000, ..Default::default() };
    let events = admin.list_audit_events(request).await.unwrap().into_inner().events;
    let mut each: BTreeMap<String, usize> = BTreeMap::new();
    for event in events.iter().filter(|event| event.action == action) {
        *each.entry(event.key_hash.clone()).or_default() += 1;
    }
    assert_eq!((each.len(), each.values().max()), (ALL, Some(&1)), "{change:?}: one event for each entry");
    let whole = |event: &&proto::AuditEvent| event.request_id == "op";
    assert_eq!(events.iter().filter(whole).count(), 1, "{change:?}: the operation began one time");
    let request = proto::SummarizeEntriesRequest { consumer: "c".into(), ..Default::default() };
    let summary = admin.summarize_entries(request).await.unwrap().into_inner();
    let states: Vec<(EntryState, i64)> =
        summary.consumers[0].states.iter().map(|one| (one.state(), one.count)).collect();
    assert_eq!(states, [(state, i64::try_from(ALL).unwrap())], "{change:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_changes_survive_kills_on_sqlite() {
    for change in [Change::Park, Change::Resolve] {
        let folder = tempfile::tempdir().unwrap();
        survives(&sqlite(folder.path()), change).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_changes_survive_kills_on_postgres() {
    for change in [Change::Park, Change::Resolve] {
        let database = pg::database().await;
        survives(&pg::shared().url(&database), change).await;
    }
}
