//! The suites: the same work, each with another harm.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::deaths::Deaths;
use super::proxy::Faults;
use super::scene::{HISTORY, Live, SOAK, Shape};
use super::soak::{self, Soak};
use super::world::{REPLAYED, STEADY, STORED};
use super::{audit, harm, operator, pauses, policies, policies_after, policies_judged};
use crate::harness::postgres::Cluster;
use crate::proof::run::Run;

/// What clients get done at least: claims that are granted for each pause, and cuts for each claim.
const GRANTS_OF_A_PAUSE: u64 = 5;
const CUTS_OF_A_GRANT: u64 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable() {
    let run = Run::new(HISTORY, 10_000);
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
    let url = cluster.url("postgres");
    let shape = Shape { consumers: STORED, ..Shape::observed(24) };
    let mut live = Live::over(run, cluster, &url, shape).await;
    loop {
        let calls = live.world.calls.load(Ordering::Relaxed);
        live.run.progress(calls, "calls");
        if calls >= live.run.size {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (granted, answered) = (live.waits("granted").await, live.waits("answered").await);
    if granted == 0.0 || answered == 0.0 {
        live.run
            .fail(format!("{granted} calls that waited were granted their key, {answered} answered"), &[]);
    }
    live.end(format!(
        "three replicas, {granted} calls that waited were granted their key, {answered} answered otherwise"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_and_consumers_agree() {
    let run = Run::new("live-operators", 5_000);
    let mut live = Live::behind(run, 16, policies::CONSUMERS, None).await;
    for number in 0..2 {
        live.clients.push(tokio::spawn(operator::work(Arc::clone(&live.world), number)));
        live.clients.push(tokio::spawn(policies::work(Arc::clone(&live.world), number)));
    }
    live.clients.push(tokio::spawn(operator::work_on_many(Arc::clone(&live.world))));
    let connection = live.cluster.connect("postgres").await;
    live.clients.push(tokio::spawn(operator::raise_offset(Arc::clone(&live.world), connection)));
    loop {
        let calls = live.world.calls.load(Ordering::Relaxed);
        live.run.progress(calls, "calls of consumers");
        if calls >= live.run.size {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.end("three replicas, two operators of entries, one of many, two of policies".into()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_servers_lose_nothing() {
    let mut live = Live::start("kill", 20, 16).await;
    let harm = harm::kill_servers(&mut live.run, &mut live.random, &mut live.replicas).await;
    live.end(harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashing_postgres_loses_nothing() {
    let mut live = Live::start("postgres-crash", 5, 16).await;
    let harm = harm::crash_postgres(&mut live.run, &mut live.cluster).await;
    live.end(harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pauses_beyond_the_lease_are_fenced() {
    let mut live = Live::start("pause", 5, 16).await;
    let before = live.grants();
    let harm = pauses::pause(&mut live.run, &mut live.random, &live.replicas, &live.cluster).await;
    // A pause ends within five leases, and sixteen clients go on between two of them.
    live.got_done(live.grants() - before, GRANTS_OF_A_PAUSE * live.run.size);
    live.end(harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_nothing() {
    let faults = Arc::new(Faults::default());
    // The replicas must come up: the harm begins after that.
    faults.calm.store(true, Ordering::Relaxed);
    let mut live = Live::behind(Run::new("cut", 100), 16, STEADY, Some(&faults)).await;
    faults.calm.store(false, Ordering::Relaxed);
    let before = live.grants();
    loop {
        let cuts = faults.cuts.load(Ordering::Relaxed);
        live.run.progress(cuts, "cuts");
        if cuts >= live.run.size {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    faults.calm.store(true, Ordering::Relaxed);
    live.got_done(live.grants() - before, live.run.size / CUTS_OF_A_GRANT);
    live.end(format!("{} connections cut", faults.cuts.load(Ordering::Relaxed))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs the machine for itself: `tests/run soak`"]
async fn all_harms_together_lose_nothing() {
    let faults = Arc::new(Faults::default());
    faults.calm.store(true, Ordering::Relaxed);
    // The consumers whose policies change have no keys but those of the operators' own probes: with so many calls
    // of unknown outcome their histories would be too tangled to be judged.
    let mut live = Live::behind(Run::new(SOAK, 60), 16, REPLAYED, Some(&faults)).await;
    for number in 0..2 {
        live.clients.push(tokio::spawn(operator::work(Arc::clone(&live.world), number)));
        live.clients.push(tokio::spawn(policies::work(Arc::clone(&live.world), number)));
    }
    let switches = live.switches.clone();
    let soak = Soak {
        cluster: &mut live.cluster,
        replicas: &mut live.replicas,
        switches,
        faults: Arc::clone(&faults),
    };
    let harm = soak::mix(&mut live.run, &mut live.random, soak).await;
    for replica in &live.replicas {
        replica.listens().await;
    }
    live.end(harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_change_has_its_audit_event() {
    let mut live = Live::start("audit", 60, 0).await;
    let deaths = Deaths::new(&mut live.replicas, &mut live.cluster);
    let harm = audit::order_amid_deaths(&mut live.run, &mut live.random, deaths, &live.world).await;
    policies_after::enable(&live.world).await;
    let problem = match policies_judged::judge(&live.world).await {
        Ok(_) => live.world.problems.lock().unwrap().first().cloned(),
        Err(problem) => Some(problem),
    };
    match problem {
        None => live.run.summary(format!("{harm}; {}", live.world.counted())),
        Some(problem) => live.run.fail(problem, &[]),
    }
}
