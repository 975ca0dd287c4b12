//! A cluster, a server, and a network between them that can fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::postgres::Cluster;
use crate::harness::server::{Served, Setup, migrate_postgres, postgres_store};
use crate::harness::switch::Switch;
use crate::harness::timer::{self, Timer};
use crate::proof::run::Run;

/// Alone, rates are compared without the other harms beside them.
pub(super) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A cluster of its own, a server on it, and a network between them that can fail.
pub(super) struct Scene {
    _alone: Option<tokio::sync::MutexGuard<'static, ()>>,
    pub(super) run: Run,
    pub(super) cluster: Cluster,
    pub(super) switch: Switch,
    pub(super) served: Served,
}

impl Scene {
    pub(super) async fn new(suite: &'static str, seconds: u64) -> Scene {
        Scene::with(suite, seconds, Setup::default()).await
    }

    pub(super) async fn with(suite: &'static str, seconds: u64, setup: Setup) -> Scene {
        let alone = if alone() { Some(ALONE.lock().await) } else { None };
        let run = Run::new(suite, seconds);
        let cluster = tokio::task::spawn_blocking(|| Cluster::start("fsync = off")).await.unwrap();
        migrate_postgres(&cluster.url("postgres")).await;
        // Not a superuser: limits of roles do not hold for those.
        cluster
            .execute(
                "postgres",
                "CREATE ROLE app LOGIN; GRANT USAGE ON SCHEMA ledger TO app; \
                 GRANT ALL ON ALL TABLES IN SCHEMA ledger TO app",
            )
            .await;
        let switch = Switch::before(SocketAddr::from(([127, 0, 0, 1], cluster.port))).await;
        let url = format!("postgres://app@{}/postgres?sslmode=disable", switch.address);
        let served = Served::start(Arc::new(postgres_store(&url)), setup).await;
        let scene = Scene { _alone: alone, run, cluster, switch, served };
        scene.becomes(ServingStatus::Serving).await;
        scene
    }

    pub(super) fn client(&self) -> LedgerServiceClient<Channel> {
        self.served.client.clone()
    }

    pub(super) async fn health(&self) -> ServingStatus {
        self.health_of("").await
    }

    pub(super) async fn health_of(&self, name: &str) -> ServingStatus {
        let channel = Channel::from_shared(format!("http://{}", self.served.address)).unwrap();
        let mut client = HealthClient::new(channel.connect().await.unwrap());
        let request = HealthCheckRequest { service: name.to_owned() };
        client.check(request).await.unwrap().into_inner().status()
    }

    pub(super) async fn becomes(&self, status: ServingStatus) {
        let until = Instant::now() + Duration::from_secs(30);
        while self.health().await != status {
            assert!(Instant::now() < until, "the server does not become {status:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the server has this number of sessions for claims.
    pub(super) async fn has_sessions(&self, number: i64) {
        let mut watcher = self.cluster.connect("postgres").await;
        let until = Instant::now() + Duration::from_secs(60);
        let sessions =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idempotency-ledger claims'";
        while sqlx::query_scalar::<_, i64>(sessions).fetch_one(&mut watcher).await.unwrap() != number {
            assert!(Instant::now() < until, "the server does not have {number} sessions for claims");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How many statements have waited for a row in vain.
    pub(super) fn statements_locked(&self) -> u32 {
        let text = self.served.scraped();
        let locked = text.lines().filter(|line| {
            line.starts_with("idempotency_ledger_store_failures_total{") && line.contains("kind=\"locked\"")
        });
        locked.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u32>().unwrap()).sum()
    }

    /// How long a harm lasts.
    pub(super) fn seconds(&self) -> Duration {
        Duration::from_secs(self.run.size)
    }

    /// Of a rate, in hundredths: what is asked alone, and what beside other tests.
    pub(super) fn bar(&self, alone: u64) -> u64 {
        self::bar(alone)
    }

    pub(super) async fn end(self, told: String) {
        self.run.summary(told);
        self.served.stop().await;
    }
}

/// The suite was started by itself.
pub(super) fn alone() -> bool {
    std::env::var_os("LEDGER_PROOF_SIZE").is_some()
}

/// The time that a bound is compared with: next to other tests the machine's delays are no fault.
pub(super) fn passed(timer: &Timer) -> Duration {
    if alone() { timer.elapsed() } else { timer.took() }
}

/// What the future returns, which must be ready within this time.
pub(super) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    if alone() {
        return tokio::time::timeout(bound, future)
            .await
            .unwrap_or_else(|_| panic!("{what}: not within {bound:?}"));
    }
    timer::within(bound, what, future).await
}

/// Of a rate, in hundredths: the bar of a suite that runs alone, halved next to other tests.
pub(super) fn bar(alone: u64) -> u64 {
    if self::alone() { alone } else { alone / 2 }
}

/// How often calm and harm are compared: other tests begin and end between the two, so next to them a rate that is too low is
/// measured again. A fault lowers it each time.
pub(super) fn rounds() -> usize {
    if alone() { 1 } else { 5 }
}
