//! Behind a real PgBouncer, whose connections with Postgres are ended, Postgres with them, and PgBouncer itself.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::harm;
use super::scene::{Live, Shape};
use crate::harness::pgbouncer::PgBouncer;
use crate::harness::postgres::Cluster;
use crate::proof::run::Run;

/// So many calls follow for each crash of Postgres.
const CALLS: u64 = 1_000;
/// How long it may take until all is well after PgBouncer was killed.
const BACK_WITHIN: Duration = Duration::from_secs(20);

async fn storm(mode: &'static str, pooling: &'static str) {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
    let mut bouncer = PgBouncer::before(&cluster, mode).await;
    let url = bouncer.url("postgres");
    let settings = &["--transaction-pooling", pooling];
    let shape = Shape { observed: false, settings, ..Shape::observed(16) };
    let mut live = Live::over(Run::new("pooler", 1), cluster, &url, shape).await;
    let harm = harm::crash_postgres(&mut live.run, &mut live.cluster).await;
    let mut slowest = Duration::ZERO;
    // Ended connections leave little time for calls.
    let calls = live.world.calls.load(Ordering::Relaxed) + CALLS * live.run.size;
    while live.world.calls.load(Ordering::Relaxed) < calls {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..live.run.size {
        live.grants_again(BACK_WITHIN).await;
        bouncer.kill();
        bouncer.run().await;
        slowest = slowest.max(live.grants_again(BACK_WITHIN).await);
    }
    let told =
        format!("{mode} mode, {harm}, PgBouncer killed as often, all granted again within {slowest:.1?}");
    live.end(told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs PgBouncer: `tests/run pgbouncer`"]
async fn a_pooler_of_sessions_loses_nothing() {
    storm("session", "false").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs PgBouncer: `tests/run pgbouncer`"]
async fn a_pooler_of_transactions_loses_nothing() {
    storm("transaction", "true").await;
}
