//! Bulk changes while their server crashes and is killed again and again: each entry is changed one time, and has one event.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use futures_util::StreamExt as _;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{self, EntryFilter, EntryState, FailureKind};
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, key};
use crate::harness::postgres as pg;
use crate::process::{BINARY, Server, sqlite};

/// Number of messages.
const ALL: usize = 120;
/// How often the server is killed amid the operation.
const KILLS: usize = 3;
/// How a process ends that crashes at a named point.
const SIGABRT: i32 = 6;

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
    /// reported number. `None` if the server ends before the operation.
    async fn run(self, admin: &mut AdminServiceClient<Channel>, rate: i32, until: i64) -> Option<i64> {
        let filter = Some(EntryFilter {
            consumer: "c".into(),
            states: vec![self.from().0.into()],
            ..Default::default()
        });
        let (operation_id, reason) = ("op".to_owned(), "why".to_owned());
        macro_rules! follow {
            ($answers:expr) => {{
                let mut answers = $answers.await.ok()?.into_inner();
                loop {
                    let answer = answers.next().await?.ok()?;
                    if answer.finished || answer.changed >= until {
                        return Some(answer.changed);
                    }
                }
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

/// The write of an operation at which a server crashes: after this number of writes.
const CRASH_AFTER: usize = 20;

/// Runs the operation at a server that crashes at this point; the point must be reached.
async fn crashes(database_url: &str, change: Change, point: &str) {
    let mut command = Command::new(BINARY);
    command.env("IDEMPOTENCY_LEDGER_CRASH_AT", format!("{point}:{CRASH_AFTER}"));
    let mut server = Server::spawn(command, database_url).await;
    let ended = change.run(&mut admin(&server).await, 1_000, i64::MAX).await;
    assert_eq!(ended, None, "{change:?}: the server crashes at {point} before the end");
    let status = tokio::task::spawn_blocking(move || server.child.wait().unwrap()).await.unwrap();
    assert_eq!(status.signal(), Some(SIGABRT), "{change:?}: {point} was reached");
}

/// Crashes and kills the server amid the operation, and continues at another one.
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
    drop(server);
    for point in ["before_send", "after_send", "after_commit"] {
        crashes(database_url, change, point).await;
    }
    server = Server::start(database_url).await;
    // The first write is that of the operation, where it is new; the last one of each may be missing.
    let mut before = i64::try_from(3 * CRASH_AFTER).unwrap() - 3;
    for _ in 0..KILLS {
        let changed = change.run(&mut admin(&server).await, 10, before + 1).await.unwrap();
        assert!(changed > before && changed < i64::try_from(ALL).unwrap(), "{change:?}: {changed}");
        before = changed;
        // SIGKILL.
        drop(server);
        server = Server::start(database_url).await;
    }
    let changed = change.run(&mut admin(&server).await, 1_000, i64::MAX).await;
    assert_eq!(changed, Some(i64::try_from(ALL).unwrap()), "{change:?}: in all calls together");
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
