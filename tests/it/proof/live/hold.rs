//! The hold switch while replicas stand still: one whose network to Postgres is silent, one whose process is
//! stopped. And what goes on while somebody has locked `meta`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::{Executor as _, Row as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::replicas::Replica;
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::postgres::Cluster;
use crate::harness::server::migrate_postgres;
use crate::harness::signals::signal;

/// For how long a replica stands still.
const STILL: Duration = Duration::from_secs(13);
/// Within this a hold must be in force, in microseconds.
const WITHIN: i64 = 10_000_000;

/// A proxy that can fall silent: what comes meanwhile is passed on afterwards.
async fn relay(target: SocketAddr) -> (SocketAddr, watch::Sender<bool>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (silent, heard) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let heard = heard.clone();
            tokio::spawn(async move {
                let Ok(far) = TcpStream::connect(target).await else { return };
                let (near_in, near_out) = near.into_split();
                let (far_in, far_out) = far.into_split();
                tokio::spawn(pass(near_in, far_out, heard.clone()));
                pass(far_in, near_out, heard).await;
            });
        }
    });
    (address, silent)
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut silent: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 65_536];
    loop {
        let count = from.read(&mut buffer).await.unwrap_or(0);
        if silent.wait_for(|silent| !silent).await.is_err() || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if count == 0 {
            let _closed = to.shutdown().await;
            return;
        }
    }
}

async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Claims all the time, each another key; whether somebody is told that the consumer is on hold.
struct Claimer {
    over: Arc<AtomicBool>,
    granted: Arc<AtomicU64>,
    on_hold: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Claimer {
    async fn start(address: SocketAddr, consumer: &'static str) -> Claimer {
        let client = LedgerServiceClient::new(channel(address).await);
        let (over, granted, on_hold) = (Arc::<AtomicBool>::default(), Arc::default(), Arc::default());
        let (ended, yes, no) =
            (Arc::clone(&over), Arc::<AtomicU64>::clone(&granted), Arc::<AtomicU64>::clone(&on_hold));
        let task = tokio::spawn(async move {
            let mut calls = tokio::task::JoinSet::new();
            for number in 0.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let (mut client, yes, no) = (client.clone(), Arc::clone(&yes), Arc::clone(&no));
                calls.spawn(async move {
                    let call = client.claim(claim(consumer, &number.to_string()));
                    match tokio::time::timeout(Duration::from_secs(25), call).await {
                        Ok(Ok(answer)) => {
                            let granted = matches!(answer.into_inner().verdict, Some(Verdict::Acquired(_)));
                            yes.fetch_add(u64::from(granted), Ordering::Relaxed);
                        }
                        Ok(Err(status)) => {
                            let held = refusal(&status).reason == "CONSUMER_DISABLED";
                            no.fetch_add(u64::from(held), Ordering::Relaxed);
                        }
                        Err(_) => {}
                    }
                });
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            while calls.join_next().await.is_some() {}
        });
        Claimer { over, granted, on_hold, task }
    }

    async fn until(count: &AtomicU64, what: &str) {
        let enough = async {
            while count.load(Ordering::Relaxed) < 10 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), enough).await.expect(what);
    }
}

async fn micros(connection: &mut sqlx::PgConnection, statement: &'static str) -> Option<i64> {
    connection.fetch_one(statement).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_grant_is_later_than_ten_seconds_after_a_hold() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
    migrate_postgres(&cluster.url("postgres")).await;
    let folder = tempfile::tempdir().unwrap();
    let (back, silent) = relay(SocketAddr::from(([127, 0, 0, 1], cluster.port))).await;
    let url = cluster.url("postgres");
    let urls = [url.replace(&cluster.port.to_string(), &back.port().to_string()), url.clone(), url];
    let mut replicas: Vec<Replica> = urls.iter().map(|url| Replica::new(folder.path(), url)).collect();
    for replica in &mut replicas {
        replica.start(None);
        replica.listens().await;
    }
    let [cut, stopped, well] = &replicas[..] else { panic!("three replicas") };
    let mut admin = AdminServiceClient::new(channel(well.address).await);
    let mut claimers = Vec::new();
    for (replica, consumer) in [(cut, "cut"), (stopped, "stopped")] {
        claimers.push(Claimer::start(replica.address, consumer).await);
    }
    for claimer in &claimers {
        Claimer::until(&claimer.granted, "it grants").await;
    }
    silent.send_replace(true);
    signal("STOP", &[stopped.pid()]);
    let still_since = Instant::now();
    let mut observer = cluster.connect("postgres").await;
    for consumer in ["cut", "stopped"] {
        let request = proto::SetPolicyRequest {
            consumer: consumer.into(),
            request_id: format!("hold {consumer}"),
            reason: "the provider is down".into(),
            policy: Some(proto::Policy { disabled: Some(true), ..Default::default() }),
            ..Default::default()
        };
        admin.set_policy(request).await.unwrap();
    }
    let held_at = micros(&mut observer, "SELECT ledger.clock()").await.unwrap();
    tokio::time::sleep(STILL.saturating_sub(still_since.elapsed())).await;
    silent.send_replace(false);
    signal("CONT", &[stopped.pid()]);
    for (claimer, consumer) in claimers.iter().zip(["cut", "stopped"]) {
        Claimer::until(&claimer.on_hold, consumer).await;
        claimer.over.store(true, Ordering::Relaxed);
    }
    for claimer in claimers {
        claimer.task.await.unwrap();
    }
    for (consumer, statement) in [
        (
            "cut",
            "SELECT max(coalesce(granted_at, created_at)) FROM ledger.entries e JOIN ledger.consumers n ON n.no = e.consumer AND n.name = 'cut'",
        ),
        (
            "stopped",
            "SELECT max(coalesce(granted_at, created_at)) FROM ledger.entries e JOIN ledger.consumers n ON n.no = e.consumer AND n.name = 'stopped'",
        ),
    ] {
        let last = micros(&mut observer, statement).await.unwrap();
        let after = (last - held_at) as f64 / 1e6;
        println!("hold: {consumer}: the last grant was {after:.1} s after the hold was answered");
        assert!(last <= held_at + WITHIN, "{consumer}: a grant {after:.1} s after the hold");
    }
}

/// As a replica does that stands still inside SetPolicy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_on_meta_stops_nothing() {
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
    migrate_postgres(&cluster.url("postgres")).await;
    let folder = tempfile::tempdir().unwrap();
    let mut replica = Replica::new(folder.path(), &cluster.url("postgres"));
    replica.start(None);
    replica.listens().await;
    let mut client = LedgerServiceClient::new(channel(replica.address).await);
    let mut health = HealthClient::new(channel(replica.address).await);
    let mut serving = async || {
        let request = HealthCheckRequest { service: String::new() };
        health.check(request).await.unwrap().into_inner().status() == ServingStatus::Serving
    };
    while !serving().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut foreign = cluster.connect("postgres").await;
    foreign.execute("BEGIN").await.unwrap();
    foreign.execute("SELECT * FROM ledger.meta FOR UPDATE").await.unwrap();
    let since = Instant::now();
    let mut granted = 0;
    while since.elapsed() < Duration::from_secs(15) {
        acquired(&client.claim(claim("c", &granted.to_string())).await.unwrap().into_inner());
        granted += 1;
        assert!(serving().await, "not serving {:?} after the lock", since.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut observer = cluster.connect("postgres").await;
    let heard = "SELECT ledger.clock() - max(heard_at) FROM ledger.replicas";
    assert!(micros(&mut observer, heard).await.unwrap() < 5_000_000, "its heartbeat is written all the same");
    println!("meta locked for 15 s: {granted} claims, all granted, SERVING all the time");
    // With the lock gone the mark is written again.
    foreign.execute("UPDATE ledger.meta SET clock_mark = 0; COMMIT").await.unwrap();
    let marked = async {
        while micros(&mut observer, "SELECT clock_mark FROM ledger.meta").await == Some(0) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), marked).await.expect("the mark is written");
}
