//! What a server knows of runs: of those that other servers create and close, and while it cannot read the policies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use idempotency_ledger::domain::{Policy, ReplayMode};
use idempotency_ledger::proto;

use super::{closes, creates, replayed, server};
use crate::harness::details::{acquired, refusal};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer, TestStore};

on_both_stores!(run_acknowledges_nothing_by_policies_that_could_not_be_read_for_too_long);

/// What one server creates or closes another one knows: the unknown immediately, the closed by its next reading.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_know_immediately_what_was_created_and_soon_what_was_closed() {
    let mut server = server(Kind::Postgres, proto::ReplayMode::Rebuild).await;
    let mut other = Served::start(Arc::clone(&server.at.store), Setup::default()).await;
    // Also where the first call comes immediately after the start.
    server.admin.create_replay_run(creates("first")).await.unwrap();
    acquired(&other.client.claim(replayed("first", "1")).await.unwrap().into_inner());
    for number in 0..5 {
        let run = format!("r{number}");
        server.admin.create_replay_run(creates(&run)).await.unwrap();
        // At most once a second a consumer is looked up again.
        tokio::time::sleep(Duration::from_millis(1_100)).await;
        acquired(&other.client.claim(replayed(&run, "1")).await.unwrap().into_inner());
    }
    server.admin.close_replay_run(closes("r4")).await.unwrap();
    let closed = async {
        for number in 2.. {
            if other.client.claim(replayed("r4", &number.to_string())).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.expect("within ten seconds");
    other.stop().await;
    server.stop().await;
}

/// A message that is acknowledged unprocessed is lost, and the run may be over by now.
async fn run_acknowledges_nothing_by_policies_that_could_not_be_read_for_too_long(kind: Kind) {
    const TRUSTED_FOR: Duration = Duration::from_secs(3);
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let suppresses = Policy { replay: ReplayMode::Suppress, ..Policy::default() };
    let setup = Setup { policies_trusted_for: TRUSTED_FOR, ..Setup::default() }.with("c", suppresses);
    let mut server = TestServer::on(at, setup).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let answered = server.client.claim(replayed("r", "1")).await.unwrap().into_inner();
    assert_eq!(answered.advice(), proto::Advice::Ack);
    plan.no_policies.store(true, Ordering::SeqCst);
    // The trust ends by the clock of the server.
    tokio::time::sleep(TRUSTED_FOR).await;
    for run in ["r", "unknown"] {
        let refused = server.client.claim(replayed(run, "2")).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "STORE_UNAVAILABLE", "{run}: {refused:?}");
    }
    plan.no_policies.store(false, Ordering::SeqCst);
    server.stop().await;
}
