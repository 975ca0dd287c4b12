//! The suites: the same work, each with another harm.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::client::Client;
use super::deaths::Deaths;
use super::proxy::{Faults, proxy};
use super::replicas::Replica;
use super::soak::{self, Soak};
use super::world::{STEADY, World};
use super::{audit, harm, judge, operator, pauses, policies, policies_after, policies_judged};
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::server::migrate_postgres;
use crate::harness::switch::Switch;
use crate::proof::history::EVERYWHERE;
use crate::proof::run::Run;

const REPLICAS: usize = 3;
const SOAK: &str = "soak";

/// A run: the cluster, its replicas, the clients at work.
struct Live {
    run: Run,
    random: Random,
    cluster: Cluster,
    replicas: Vec<Replica>,
    world: Arc<World>,
    clients: Vec<tokio::task::JoinHandle<()>>,
    /// Between each replica and Postgres, where connections go through proxies.
    switches: Vec<Switch>,
    _folder: tempfile::TempDir,
}

impl Live {
    async fn start(suite: &'static str, small: u64, clients: u64) -> Live {
        Live::behind(Run::new(suite, small), clients, STEADY, None).await
    }

    /// With `faults` every connection goes through a proxy: from clients to replicas, from replicas to
    /// Postgres.
    async fn behind(
        run: Run,
        clients: u64,
        consumers: &'static [&'static str],
        faults: Option<&Arc<Faults>>,
    ) -> Live {
        let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
        migrate_postgres(&cluster.url("postgres")).await;
        let mut random = Random::new(run.seed);
        let folder = tempfile::tempdir().unwrap();
        let (mut replicas, mut fronts, mut switches) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPLICAS {
            let mut url = cluster.url("postgres");
            if let Some(faults) = faults {
                let postgres = SocketAddr::from(([127, 0, 0, 1], cluster.port));
                let back = proxy(postgres, Arc::clone(faults), Random::new(random.next())).await;
                let switch = Switch::before(back).await;
                url = url.replace(&cluster.port.to_string(), &switch.address.port().to_string());
                switches.push(switch);
            }
            let mut replica = Replica::new(folder.path(), &url);
            replica.start(None);
            replica.listens().await;
            fronts.push(match faults {
                None => replica.address,
                Some(faults) => proxy(replica.address, Arc::clone(faults), Random::new(random.next())).await,
            });
            replicas.push(replica);
        }
        // A replica that is dead, or whose Postgres is, learns of no policy.
        let everywhere = if clients == 0 || run.suite == SOAK { 6 * EVERYWHERE } else { EVERYWHERE };
        let world = World::new(run.seed, fronts, consumers, everywhere);
        let clients = (0..clients).map(|number| tokio::spawn(Client::new(&world, number).work())).collect();
        Live { run, random, cluster, replicas, world, clients, switches, _folder: folder }
    }

    /// The harm is over: clients stop, every key ends, every record is judged.
    async fn end(self, harm: String) {
        self.world.stop();
        for client in self.clients {
            client.await.unwrap();
        }
        policies_after::enable(&self.world).await;
        let seen = judge::judge(&self.run, &self.world, &self.cluster).await;
        self.run.summary(format!("{harm}; {seen}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn histories_are_linearizable() {
    let mut live = Live::start("live-history", 10_000, 24).await;
    loop {
        let calls = live.world.calls.load(Ordering::Relaxed);
        live.run.progress(calls, "calls");
        if calls >= live.run.size {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    live.end("three replicas".into()).await;
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
    let harm = pauses::pause(&mut live.run, &mut live.random, &live.replicas, &live.cluster).await;
    live.end(harm).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cut_connections_lose_nothing() {
    let faults = Arc::new(Faults::default());
    // The replicas must come up: the harm begins after that.
    faults.calm.store(true, Ordering::Relaxed);
    let mut live = Live::behind(Run::new("cut", 100), 16, STEADY, Some(&faults)).await;
    faults.calm.store(false, Ordering::Relaxed);
    loop {
        let cuts = faults.cuts.load(Ordering::Relaxed);
        live.run.progress(cuts, "cuts");
        if cuts >= live.run.size {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    faults.calm.store(true, Ordering::Relaxed);
    live.end(format!("{} connections cut", faults.cuts.load(Ordering::Relaxed))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs the machine for itself: `tests/run soak`"]
async fn all_harms_together_lose_nothing() {
    let faults = Arc::new(Faults::default());
    faults.calm.store(true, Ordering::Relaxed);
    // The consumers whose policies change have no keys but those of the operators' own probes: with so many calls
    // of unknown outcome their histories would be too tangled to be judged.
    let mut live = Live::behind(Run::new(SOAK, 60), 16, STEADY, Some(&faults)).await;
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
