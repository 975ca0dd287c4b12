//! Replay runs beside servers that do not know them, and would answer a replay from live entries. No run is created while
//! one was heard of within five minutes; the first run makes it stand down; and claims go on at the new servers.
//!
//! In a small run such a server is no more than its row in the ledger's table of servers. A large one has the program of
//! the commit before, stops it for as long as it takes, and wakes it up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use sqlx::Row as _;

use super::client::Client;
use super::policies::{admin, word};
use super::replays::{self, VIEW};
use super::replicas::BINARY;
use super::scene::{Live, Shape};
use super::versions::{WITHIN, ahead_of, program_of, runs};
use super::world::{REPLAYED, World};
use super::{judge, policies_after};
use crate::harness::postgres::Cluster;
use crate::harness::server::migrate_postgres;
use crate::harness::signals::signal;
use crate::proof::history::EVERYWHERE;
use crate::proof::run::Run;

/// What a configuration of this version says, and no older one can read.
const REBUILD: &str = "[consumers.view]\nreplay = \"REBUILD\"\n";
/// With it runs came: the commit before does not know them.
const RUNS: &str = "migrations/postgres/0002_replay_runs.sql";
/// The level from which on servers know runs.
const KNOWS_RUNS: i32 = 3;
/// Each of them grants so many more claims before anything else is done.
const MORE: u64 = 3;
const CLIENTS: u64 = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_created_once_every_server_knows_runs() {
    let run = Run::new("versions", 3);
    let large = std::env::var_os("LEDGER_PROOF_SIZE").is_some() && run.size > 3;
    let old = large.then(|| tokio::task::block_in_place(|| program_of(&ahead_of(RUNS))));
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
    let url = cluster.url("postgres");
    if let Some((program, _)) = &old {
        runs(program, &["migrate", "--database-url", &url]);
    }
    migrate_postgres(&url).await;
    let mut live =
        Live::over(run, cluster, &url, Shape { observed: false, ..Shape::observed(CLIENTS) }).await;
    let told = match &old {
        Some((program, name)) => {
            upgraded(&mut live, program).await;
            format!("after {name}, three servers upgraded one by one")
        }
        None => {
            beside_a_row(&mut live).await;
            "after a server that is only heard of".to_owned()
        }
    };
    let restarts = if large { live.run.size } else { 1 };
    let seen = replayed(&mut live, restarts).await;
    live.end(format!("runs {told}; in runs {seen}; live")).await;
}

/// A server of which no more is known than that it was heard of.
async fn beside_a_row(live: &mut Live) {
    restart(live, 0, &PathBuf::from(BINARY), REBUILD).await;
    let heard = "INSERT INTO ledger.replicas (replica, heard_at, speaks, version) \
                 VALUES (gen_random_uuid(), ledger.clock(), $1, 'before')";
    let mut connection = live.cluster.connect("postgres").await;
    sqlx::query(heard).bind(KNOWS_RUNS - 1).execute(&mut connection).await.unwrap();
    refused(live, 0).await;
    five_minutes_pass(live).await;
    assert_eq!(create(live, 0).await, "", "once it was not heard of for five minutes");
    assert_eq!(level(live).await, KNOWS_RUNS);
}

/// From the program before to this one, server by server; the last one is stopped instead, and wakes up too late.
async fn upgraded(live: &mut Live, program: &PathBuf) {
    let last = live.replicas.len() - 1;
    for which in 0..=last {
        restart(live, which, program, "").await;
    }
    go_on(live, 0..=last).await;
    for which in 0..last {
        restart(live, which, &PathBuf::from(BINARY), REBUILD).await;
        // The policy of the new ones allows runs already; those before, and those that were there a moment ago, do not
        // know them.
        refused(live, which).await;
        go_on(live, 0..=last).await;
    }
    signal("STOP", &[live.replicas[last].pid()]);
    refused(live, 0).await;
    five_minutes_pass(live).await;
    assert_eq!(create(live, 0).await, "", "once none was heard of for five minutes");
    assert_eq!(level(live).await, KNOWS_RUNS);
    go_on(live, 0..last).await;
    // It wakes up: it grants nothing more, and ends.
    let granted = live.world.grants[last].load(Ordering::Relaxed);
    signal("CONT", &[live.replicas[last].pid()]);
    assert!(live.replicas[last].dies(WITHIN).await, "a server that does not know runs goes on");
    assert!(!live.replicas[last].ended_well(), "and says that all was well");
    let woken = live.world.grants[last].load(Ordering::Relaxed) - granted;
    assert_eq!(woken, 0, "it granted after the first run was created");
    // Nor does it start again.
    live.replicas[last].start(None);
    assert!(live.replicas[last].dies(WITHIN).await, "a server that does not know runs has started");
    assert!(!live.replicas[last].ended_well(), "and says that all was well");
    let said = live.replicas[last].log();
    assert!(said.contains("features up to number 3"), "it does not say why: {said}");
    go_on(live, 0..last).await;
    restart(live, last, &PathBuf::from(BINARY), REBUILD).await;
    // It may have been heard of once more.
    five_minutes_pass(live).await;
}

/// The same consumers live and in runs, while the servers are restarted once more; what they have seen.
async fn replayed(live: &mut Live, restarts: u64) -> String {
    let fronts = live.replicas.iter().map(|replica| replica.address).collect();
    let world = World::new(live.run.seed + 1, fronts, REPLAYED, 2 * EVERYWHERE);
    let mut clients: Vec<_> =
        (0..CLIENTS).map(|number| tokio::spawn(Client::new(&world, number).work())).collect();
    clients.push(tokio::spawn(replays::work(Arc::clone(&world))));
    for number in 0..restarts {
        go_on(live, 0..live.replicas.len()).await;
        restart(live, number as usize % live.replicas.len(), &PathBuf::from(BINARY), REBUILD).await;
        live.run.progress(number + 1, "restarts");
    }
    go_on(live, 0..live.replicas.len()).await;
    world.stop();
    for client in clients {
        client.await.unwrap();
    }
    policies_after::enable(&world).await;
    judge::judge(&live.run, &world, &live.cluster).await
}

async fn restart(live: &mut Live, which: usize, program: &PathBuf, more: &str) {
    let replica = &mut live.replicas[which];
    if replica.is_alive() {
        signal("TERM", &[replica.pid()]);
        assert!(replica.dies(WITHIN).await && replica.ended_well(), "a server does not drain");
    }
    replica.binary.clone_from(program);
    replica.configure(more);
    replica.start(None);
    replica.serves(WITHIN).await;
}

/// Waits until each of these servers has granted more claims.
async fn go_on(live: &Live, which: impl IntoIterator<Item = usize>) {
    let until = Instant::now() + WITHIN;
    for which in which {
        let grants = &live.world.grants[which];
        let enough = grants.load(Ordering::Relaxed) + MORE;
        while grants.load(Ordering::Relaxed) < enough {
            assert!(Instant::now() < until, "server {which} grants nothing: {}", live.world.counted());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Asks for a run; why that was refused, or nothing.
async fn create(live: &Live, replica: usize) -> String {
    let request = proto::CreateReplayRunRequest {
        consumer: VIEW.into(),
        replay_run: "the-first".into(),
        request_id: "the first".into(),
        reason: "a replay".into(),
        ends_in: None,
    };
    match admin(&live.world, replica).create_replay_run(request).await {
        Ok(_) => String::new(),
        Err(status) => word(&status),
    }
}

async fn refused(live: &Live, replica: usize) {
    assert_eq!(
        create(live, replica).await,
        "STATE_NOT_ALLOWED",
        "a server that does not know runs was heard of"
    );
    assert!(level(live).await < KNOWS_RUNS, "the level was raised");
}

async fn level(live: &Live) -> i32 {
    let mut connection = live.cluster.connect("postgres").await;
    sqlx::query("SELECT level FROM ledger.meta").fetch_one(&mut connection).await.unwrap().get(0)
}

/// For the servers that do not know runs: none was heard of for five minutes.
async fn five_minutes_pass(live: &Live) {
    let mut connection = live.cluster.connect("postgres").await;
    let age = "UPDATE ledger.replicas SET heard_at = heard_at - 301000000 WHERE speaks < $1";
    sqlx::query(age).bind(KNOWS_RUNS).execute(&mut connection).await.unwrap();
}
