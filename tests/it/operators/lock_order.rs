//! Changes of rules lock `meta` first and then their own row, all in this order: two orders together deadlock.

use idempotency_ledger::proto;
use sqlx::Executor as _;

use crate::harness::postgres as pg;
use crate::harness::server::{Kind, TestServer};
use crate::holds::{hold, resume};
use crate::replays::{self, closes, creates};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_a_run_waits_for_meta_without_the_run() {
    let mut server = replays::server(Kind::Postgres, proto::ReplayMode::Rebuild).await;
    server.admin.create_replay_run(creates("r")).await.unwrap();
    let mut admin = server.admin.clone();
    let close = async move { admin.close_replay_run(closes("r")).await.map(drop) };
    row_is_free_while_meta_is_awaited(&server, close, "SELECT 1 FROM ledger.replay_runs FOR UPDATE NOWAIT")
        .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lifting_a_hold_waits_for_meta_without_the_hold() {
    let mut server = TestServer::start(Kind::Postgres).await;
    server.admin.hold_consumers(hold("c")).await.unwrap();
    let mut admin = server.admin.clone();
    let lift = async move { admin.resume_consumers(resume("c")).await.map(drop) };
    row_is_free_while_meta_is_awaited(&server, lift, "SELECT 1 FROM ledger.holds FOR UPDATE NOWAIT").await;
    server.stop().await;
}

/// A foreign transaction has `meta`, as a change of a policy does, and takes the rows after it.
async fn row_is_free_while_meta_is_awaited(
    server: &TestServer,
    change: impl Future<Output = Result<(), tonic::Status>> + Send + 'static,
    rows: &'static str,
) {
    let database = server.at.database.as_ref().unwrap();
    let mut foreign = pg::shared().connect(database).await;
    foreign.execute("BEGIN; SELECT 1 FROM ledger.meta FOR UPDATE").await.unwrap();
    let change = tokio::spawn(change);
    pg::somebody_waits(database).await;
    foreign.execute(rows).await.expect("the change does not hold its row while it waits for `meta`");
    foreign.execute("ROLLBACK").await.unwrap();
    change.await.unwrap().unwrap();
}
