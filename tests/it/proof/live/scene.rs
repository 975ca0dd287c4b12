//! A run of a live suite: a cluster, replicas over it, clients at work; and its end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::client::Client;
use super::proxy::{Faults, proxy};
use super::replays::VIEW;
use super::replicas::Replica;
use super::world::{KEPT, STEADY, STORED, World};
use super::{inbox, judge, policies_after, replays};
use crate::harness::log_reader::LogReader;
use crate::harness::postgres::{Cluster, free_port};
use crate::harness::random::Random;
use crate::harness::server::migrate_postgres;
use crate::harness::switch::Switch;
use crate::proof::history::EVERYWHERE;
use crate::proof::run::Run;

const REPLICAS: usize = 3;
pub(super) const SOAK: &str = "soak";
pub(super) const HISTORY: &str = "live-history";
/// A replica that has granted so many more claims grants again.
const MORE: u64 = 3;

/// A run: the cluster, its replicas, the clients at work.
pub(super) struct Live {
    pub(super) run: Run,
    pub(super) random: Random,
    pub(super) cluster: Cluster,
    pub(super) replicas: Vec<Replica>,
    pub(super) world: Arc<World>,
    pub(super) clients: Vec<tokio::task::JoinHandle<()>>,
    /// Between each replica and Postgres, where connections go through proxies.
    pub(super) switches: Vec<Switch>,
    _folder: tempfile::TempDir,
}

/// What a run has besides its cluster.
pub(super) struct Shape<'a> {
    pub(super) clients: u64,
    pub(super) consumers: &'static [&'static str],
    /// With these, every connection goes through a proxy.
    pub(super) faults: Option<&'a Arc<Faults>>,
    /// Whether the replicas tell their metrics.
    pub(super) observed: bool,
    /// Further arguments of the replicas.
    pub(super) settings: &'a [&'a str],
}

impl Shape<'_> {
    /// As most suites have it: so many clients.
    pub(super) fn observed(clients: u64) -> Shape<'static> {
        Shape { clients, consumers: STEADY, faults: None, observed: true, settings: &[] }
    }
}

impl Live {
    pub(super) async fn start(suite: &'static str, small: u64, clients: u64) -> Live {
        let consumers = if clients == 0 { STEADY } else { STORED };
        Live::behind(Run::new(suite, small), clients, consumers, None).await
    }

    /// With `faults` every connection goes through a proxy: from clients to replicas, from replicas to
    /// Postgres.
    pub(super) async fn behind(
        run: Run,
        clients: u64,
        consumers: &'static [&'static str],
        faults: Option<&Arc<Faults>>,
    ) -> Live {
        let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
        let url = cluster.url("postgres");
        Live::over(run, cluster, &url, Shape { clients, consumers, faults, observed: false, settings: &[] })
            .await
    }

    /// Over this cluster, which the replicas reach by this URL.
    pub(super) async fn over(run: Run, cluster: Cluster, url: &str, shape: Shape<'_>) -> Live {
        let Shape { clients, consumers, faults, observed, settings } = shape;
        migrate_postgres(&cluster.url("postgres")).await;
        let mut random = Random::new(run.seed);
        let folder = tempfile::tempdir().unwrap();
        let (mut replicas, mut fronts, mut switches) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..REPLICAS {
            let mut url = url.to_owned();
            if let Some(faults) = faults {
                let postgres = SocketAddr::from(([127, 0, 0, 1], cluster.port));
                let back = proxy(postgres, Arc::clone(faults), Random::new(random.next())).await;
                let switch = Switch::before(back).await;
                url = url.replace(&cluster.port.to_string(), &switch.address.port().to_string());
                switches.push(switch);
            }
            let mut replica = Replica::new(folder.path(), &url);
            replica.observed = observed.then(|| SocketAddr::from(([127, 0, 0, 1], free_port())));
            replica.log_reader = (run.suite == SOAK).then(LogReader::default);
            replica.settings = settings.iter().map(|one| (*one).to_owned()).collect();
            replica.start(None);
            replica.listens().await;
            fronts.push(match faults {
                None => replica.address,
                Some(faults) => proxy(replica.address, Arc::clone(faults), Random::new(random.next())).await,
            });
            replicas.push(replica);
        }
        // A replica that is dead, or whose Postgres is, learns of no policy.
        let harmed = consumers.contains(&VIEW) && run.suite != HISTORY;
        let everywhere = match run.suite {
            _ if clients == 0 => 6 * EVERYWHERE,
            SOAK => 6 * EVERYWHERE,
            // A replica that lacks its store goes by what it knows for as long as the contract allows.
            _ if harmed => 2 * EVERYWHERE,
            _ => EVERYWHERE,
        };
        let world = World::new(run.seed, fronts, consumers, everywhere);
        if consumers.contains(&KEPT) {
            inbox::switch_on(&world, KEPT).await;
        }
        let mut clients: Vec<_> =
            (0..clients).map(|number| tokio::spawn(Client::new(&world, number).work())).collect();
        if consumers.contains(&VIEW) {
            clients.push(tokio::spawn(replays::work(Arc::clone(&world))));
        }
        Live { run, random, cluster, replicas, world, clients, switches, _folder: folder }
    }

    /// The harm is over: clients stop, every key ends, every record is judged.
    pub(super) async fn end(self, harm: String) {
        self.world.stop();
        for client in self.clients {
            client.await.unwrap();
        }
        policies_after::enable(&self.world).await;
        let seen = judge::judge(&self.run, &self.world, &self.cluster).await;
        self.run.summary(format!("{harm}; {seen}"));
    }

    /// How many claims all replicas together have granted.
    pub(super) fn grants(&self) -> u64 {
        self.world.grants.iter().map(|one| one.load(Ordering::Relaxed)).sum()
    }

    /// Fails unless clients got something done while there was harm: else nothing was harmed.
    pub(super) fn got_done(&self, grants: u64, floor: u64) {
        if grants < floor {
            let problem = format!(
                "{grants} claims were granted amid the harm, fewer than {floor}: {}",
                self.world.counted()
            );
            self.run.fail(problem, &[]);
        }
    }

    /// How many waits have ended like this, on all replicas, where they are observed.
    pub(super) async fn waits(&self, outcome: &str) -> f64 {
        let (name, label) = ("idempotency_ledger_wait_seconds_count", format!("outcome=\"{outcome}\""));
        let mut all = 0.0;
        for replica in &self.replicas {
            all += replica.metric(name, &label).await;
        }
        all
    }

    /// Waits until each replica grants again, at most for this time; how long that took.
    pub(super) async fn grants_again(&self, within: Duration) -> Duration {
        let grants = &self.world.grants;
        let now = || grants.iter().map(|one| one.load(Ordering::Relaxed));
        let (started, before): (Instant, Vec<u64>) = (Instant::now(), now().collect());
        while now().zip(&before).any(|(now, before)| now < before + MORE) {
            if started.elapsed() > within {
                let problem = format!("a replica grants nothing for {within:?}: {}", self.world.counted());
                self.run.fail(problem, &[]);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        started.elapsed()
    }
}
