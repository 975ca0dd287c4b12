//! A log that nothing reads costs no call.

use std::process::Command;
use std::time::{Duration, Instant};

use super::load::Load;
use super::scene::{ALONE, alone, bar, rounds};
use crate::harness::log_reader::{LogReader, MUCH};
use crate::harness::postgres::free_port;
use crate::observe::series;
use crate::process::{BINARY, Server, sqlite};
use crate::proof::run::Run;

/// The reader of standard error stalls: no call is lost, and none waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_log_delays_no_call() {
    let _alone = if alone() { Some(ALONE.lock().await) } else { None };
    let run = Run::new("availability-log", 3);
    let folder = tempfile::tempdir().unwrap();
    let reader = LogReader::default();
    let log = reader.reads_into(std::fs::File::create(folder.path().join("log")).unwrap());
    let observed = format!("127.0.0.1:{}", free_port());
    let settings = ["--log", MUCH, "--observe-listen", &observed];
    let server = Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, log).await;
    let load = Load::start(&server.client().await, 32);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut calm, mut harmed, mut share, mut dropped) = (0, 0, 0, 0.0);
    for _ in 0..rounds() {
        calm = load.during(Duration::from_secs(run.size)).await;
        reader.stall(true);
        load.watch_gaps();
        harmed = load.during(Duration::from_secs(run.size)).await;
        // On a busy machine it takes longer until its queue is full.
        let since = Instant::now();
        while dropped == 0.0 && since.elapsed() < Duration::from_secs(120) {
            load.during(Duration::from_millis(100)).await;
            dropped = series(&observed).await["idempotency_ledger_log_lines_dropped_total"];
        }
        let gap = load.gap().passed;
        reader.stall(false);
        assert!(gap < Duration::from_secs(1), "no call was answered for {gap:?}");
        share = harmed * 100 / calm.max(1);
        if share >= bar(80) {
            break;
        }
    }
    let refused = load.refused();
    load.end().await;
    assert!(refused.is_empty(), "{refused:?}");
    assert!(dropped > 0.0, "the reader stalled, and the queue had room for all: {harmed} pairs");
    assert!(share >= bar(80), "{share} % of the calm rate: {harmed} pairs after {calm}");
    run.summary(format!(
        "an unread log: 0 calls lost, {share} % of {calm} calm pairs, {dropped} lines dropped"
    ));
}
