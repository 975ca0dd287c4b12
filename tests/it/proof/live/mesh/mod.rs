//! Three replicas behind a real Envoy with the file that the repository ships: rolling restarts, deaths, a replica
//! that loses its store, a store that is away. What that costs callers, and whether every history is explained.

mod cells;
mod envoy;
mod phase;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::envoy::{Envoy, TRIES};
use self::phase::{Cost, Phase};
use super::client::Client;
use super::judge;
use super::replicas::Replica;
use super::world::{STEADY, World, micros};
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::server::migrate_postgres;
use crate::harness::signals::signal;
use crate::harness::switch::Switch;
use crate::proof::history::EVERYWHERE;
use crate::proof::run::Run;

const REPLICAS: usize = 3;
const CLIENTS: u64 = 16;
/// The server's own defaults.
const DRAIN_WAIT: Duration = Duration::from_secs(5);
const DRAIN_MAX: Duration = Duration::from_secs(15);
/// Health of a replica is known again after this, under any load.
const SOON: Duration = Duration::from_secs(30);
/// A store is away for so long.
const AWAY: Duration = Duration::from_secs(5);
/// At most one call of so many fails when replicas are killed.
const ONE_OF: u64 = 100_000;
/// Of calls while one replica is cut off from the store, and nobody knows at first.
const P99_MAX: Duration = Duration::from_millis(1_500);
/// Of calls when it is known which replicas cannot serve: they get none.
const P99_SEEN_MAX: Duration = Duration::from_millis(500);

struct Mesh {
    run: Run,
    random: Random,
    envoy: Envoy,
    replicas: Vec<Replica>,
    addresses: Vec<SocketAddr>,
    /// Between each replica and Postgres.
    switches: Vec<Switch>,
    cluster: Cluster,
    world: Arc<World>,
    clients: Vec<tokio::task::JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl Mesh {
    async fn start() -> Mesh {
        let run = Run::new("mesh", 3);
        let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
        migrate_postgres(&cluster.url("postgres")).await;
        let folder = tempfile::tempdir().unwrap();
        let (mut replicas, mut switches) = (Vec::new(), Vec::new());
        for _ in 0..REPLICAS {
            let switch = Switch::before(SocketAddr::from(([127, 0, 0, 1], cluster.port))).await;
            let port = switch.address.port().to_string();
            let url = cluster.url("postgres").replace(&cluster.port.to_string(), &port);
            let mut replica = Replica::new(folder.path(), &url);
            replica.drain_wait = DRAIN_WAIT;
            replica.start(None);
            replica.listens().await;
            replicas.push(replica);
            switches.push(switch);
        }
        let addresses: Vec<SocketAddr> = replicas.iter().map(|replica| replica.address).collect();
        let envoy = Envoy::start(folder.path(), &addresses);
        envoy.sees(&addresses, true, SOON).await;
        let world = World::behind(run.seed, vec![envoy.address], STEADY, EVERYWHERE, TRIES);
        let clients = (0..CLIENTS).map(|number| tokio::spawn(Client::new(&world, number).work())).collect();
        let random = Random::new(run.seed);
        Mesh { run, random, envoy, replicas, addresses, switches, cluster, world, clients, _folder: folder }
    }

    /// Waits until Envoy sees that all replicas serve.
    async fn all_serve(&self) {
        for replica in &self.replicas {
            replica.serves(SOON).await;
        }
        self.envoy.sees(&self.addresses, true, SOON).await;
    }

    /// What no phase may show.
    fn judge(&self, phase: &str, cost: &Cost, failures_allowed: u64) {
        let problem = match cost.unexplained() {
            Some(why) => format!("an error that nobody explains: {why}"),
            None if cost.failed > failures_allowed => format!("at most {failures_allowed} calls may fail"),
            None => return,
        };
        self.run.fail(
            format!("{phase}: {problem}: {cost}"),
            &[("ended by Envoy", self.envoy.ended().join("\n"))],
        );
    }

    /// One replica after the other drains and starts again.
    async fn restart(&mut self) -> String {
        let phase = Phase::begin(&self.world);
        let (mut seen, mut drained) = (Duration::ZERO, Duration::ZERO);
        for number in 0..self.run.size {
            let which = number as usize % REPLICAS;
            signal("TERM", &[self.replicas[which].pid()]);
            let started = Instant::now();
            let address = [self.addresses[which]];
            seen = seen.max(self.envoy.sees(&address, false, DRAIN_WAIT).await);
            let replica = &mut self.replicas[which];
            assert!(replica.dies(DRAIN_WAIT + DRAIN_MAX).await, "a replica does not drain in its time");
            assert!(replica.ended_well(), "a replica gave up calls at its end");
            drained = drained.max(started.elapsed());
            replica.start(None);
            replica.listens().await;
            self.all_serve().await;
            self.run.progress(number + 1, "restarts");
        }
        let cost = phase.end(&self.world);
        self.judge("rolling restarts", &cost, 0);
        let (size, seen, drained) = (self.run.size, seen.as_millis(), drained.as_millis());
        format!("{size} restarts: {cost}, a drain seen after {seen} ms and over after {drained} ms at most")
    }

    /// Replicas die, and are started again.
    async fn kill(&mut self) -> String {
        let phase = Phase::begin(&self.world);
        for number in 0..self.run.size {
            // At any moment of the calls under way, and of the health checks.
            tokio::time::sleep(Duration::from_millis(self.random.below(1_000))).await;
            let replica = &mut self.replicas[self.random.below(REPLICAS as u64) as usize];
            replica.kill();
            tokio::time::sleep(Duration::from_millis(self.random.below(1_000))).await;
            replica.start(None);
            replica.listens().await;
            self.all_serve().await;
            self.run.progress(number + 1, "kills");
        }
        let cost = phase.end(&self.world);
        self.judge("kills", &cost, cost.calls.div_ceil(ONE_OF));
        format!("{} kills: {cost}", self.run.size)
    }

    /// One replica cannot reach the store, which answers the others; then a second one cannot either.
    async fn cut(&mut self) -> String {
        let which = self.random.below(REPLICAS as u64) as usize;
        let other = (which + 1) % REPLICAS;
        let phase = Phase::begin(&self.world);
        let seen = self.lose_store(which).await;
        // The others serve on alone.
        tokio::time::sleep(AWAY).await;
        let one = phase.end(&self.world);
        self.judge("one replica without the store", &one, 0);
        self.lose_store(other).await;
        let phase = Phase::begin(&self.world);
        tokio::time::sleep(AWAY / 2).await;
        let two = phase.end(&self.world);
        self.judge("two replicas without the store, once that is seen", &two, 0);
        for which in [which, other] {
            self.switches[which].silence(false);
        }
        self.all_serve().await;
        if one.p99 > micros(P99_MAX) || two.p99 > micros(P99_SEEN_MAX) {
            let told = format!("p99 may be {P99_MAX:?}, and once it is seen {P99_SEEN_MAX:?}: {one}; {two}");
            self.run.fail(told, &[]);
        }
        format!(
            "one replica without the store: {one}, seen after {} ms; two, once that is seen: {two}",
            seen.as_millis()
        )
    }

    /// A replica's network to the store goes silent; when Envoy sees that it cannot serve.
    async fn lose_store(&self, which: usize) -> Duration {
        self.switches[which].silence(true);
        self.envoy.sees(&[self.addresses[which]], false, SOON).await
    }

    fn silence_all(&self, silent: bool) {
        for switch in &self.switches {
            switch.silence(silent);
        }
    }

    /// The store answers nobody, then it is not there at all.
    async fn away(&mut self) -> String {
        let mut told = Vec::new();
        for gone in [false, true] {
            let phase = Phase::begin(&self.world);
            if gone {
                self.cluster.crash();
            }
            self.silence_all(!gone);
            tokio::time::sleep(AWAY).await;
            self.silence_all(false);
            if gone {
                tokio::task::block_in_place(|| self.cluster.run());
            }
            self.all_serve().await;
            let cost = phase.end(&self.world);
            let what = if gone { "a store that is not there" } else { "a store that is silent" };
            self.judge(what, &cost, u64::MAX);
            told.push(format!("{what}: {cost}"));
        }
        told.join(", ")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it needs the machine for itself: `tests/run mesh`"]
async fn a_mesh_loses_nothing() {
    let mut mesh = Mesh::start().await;
    let harm = [mesh.restart().await, mesh.kill().await, mesh.cut().await, mesh.away().await].join("; ");
    mesh.world.stop();
    for client in mesh.clients {
        client.await.unwrap();
    }
    let seen = judge::judge(&mesh.run, &mesh.world, &mesh.cluster).await;
    mesh.run.summary(format!("{harm}; {seen}"));
}
