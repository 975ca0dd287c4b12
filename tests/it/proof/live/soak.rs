//! All harms at once, for a long time: servers killed, restarted and stopped; Postgres crashing, stopped, its
//! backends ended; connections cut and gone silent; rows and `ledger.meta` held by somebody else; logs that are not read.
//! Operators
//! and policies are at work beside the consumers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sqlx::Executor as _;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::proxy::Faults;
use super::replicas::Replica;
use super::world::LEASE;
use crate::harness::log_reader::LogReader;
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::harness::signals::signal;
use crate::harness::switch::Switch;
use crate::proof::run::Run;

/// A drain may take this long.
const DRAIN_MAX: Duration = Duration::from_secs(25);
/// For longer than a server is stopped.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);
/// The memory of the one replica that is never ended is compared with that of this moment.
const WARM: Duration = Duration::from_secs(300);
/// Over so many of the last samples, one a second, a median is taken.
const SAMPLES: usize = 30;

pub(crate) struct Soak<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) replicas: &'a mut [Replica],
    /// Between each replica and Postgres.
    pub(crate) switches: Vec<Switch>,
    pub(crate) faults: Arc<Faults>,
}

type Counts = BTreeMap<&'static str, u64>;

/// Does harm for as many seconds as the run's size says.
pub(crate) async fn mix(run: &mut Run, random: &mut Random, soak: Soak<'_>) -> String {
    let Soak { cluster, replicas, switches, faults } = soak;
    let until = Instant::now() + Duration::from_secs(run.size);
    let (spared, others) = replicas.split_first_mut().unwrap();
    let pids = || spared.pid();
    let (mut one, mut two) = (Random::new(random.next()), Random::new(random.next()));
    let logs: Vec<LogReader> = [&*spared]
        .into_iter()
        .chain(others.iter())
        .filter_map(|replica| replica.log_reader.clone())
        .collect();
    let address = spared.address;
    let mut three = Random::new(random.next());
    let (servers, store, (logs, silent), memory) = tokio::join!(
        harm_servers(until, &mut one, pids(), others),
        harm_store(until, &mut two, cluster, &switches, &faults),
        harm_logs(until, &mut three, &logs, address),
        watch_memory(run, until, pids()),
    );
    if silent > 0 {
        run.fail(format!("a server was silent {silent} times while its log was not read"), &[]);
    }
    let counted: Vec<String> =
        servers.iter().chain(&store).chain(&logs).map(|(what, times)| format!("{times} {what}")).collect();
    format!("{} s of {}; {memory}", run.size, counted.join(", "))
}

async fn harm_servers(until: Instant, random: &mut Random, spared: u32, others: &mut [Replica]) -> Counts {
    let mut counts = Counts::new();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200 + random.below(1_500))).await;
        let number = random.below(others.len() as u64) as usize;
        let what = match random.below(3) {
            0 => {
                others[number].kill();
                others[number].start(None);
                "servers killed"
            }
            1 => {
                signal("TERM", &[others[number].pid()]);
                assert!(others[number].dies(DRAIN_MAX).await, "a server does not drain");
                others[number].start(None);
                "servers restarted"
            }
            _ => {
                let pid = if random.percent(30) { spared } else { others[number].pid() };
                signal("STOP", &[pid]);
                tokio::time::sleep(LEASE * (50 + random.below(450) as u32) / 100).await;
                signal("CONT", &[pid]);
                "servers stopped for a while"
            }
        };
        *counts.entry(what).or_default() += 1;
        // A server gives up when its store is away at its start.
        for replica in others.iter_mut() {
            if !replica.is_alive() {
                replica.start(None);
            }
        }
    }
    counts
}

async fn harm_store(
    until: Instant,
    random: &mut Random,
    cluster: &mut Cluster,
    switches: &[Switch],
    faults: &Faults,
) -> Counts {
    let mut counts = Counts::new();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200 + random.below(2_000))).await;
        let switch = &switches[random.below(switches.len() as u64) as usize];
        let while_it_lasts = Duration::from_millis(500 + random.below(3_500));
        let what = match random.below(16) {
            0..3 => {
                faults.calm.store(false, Ordering::Relaxed);
                tokio::time::sleep(while_it_lasts / 2).await;
                faults.calm.store(true, Ordering::Relaxed);
                "times connections cut"
            }
            3..6 => {
                let rows = "SELECT key FROM ledger.entries ORDER BY created_at DESC LIMIT 8";
                let held = format!("SELECT 1 FROM ledger.entries WHERE key IN ({rows}) FOR UPDATE");
                hold(cluster, &held, while_it_lasts).await;
                "times rows held"
            }
            6..8 => {
                hold(cluster, "SELECT 1 FROM ledger.meta FOR UPDATE", while_it_lasts).await;
                "times ledger.meta held"
            }
            8..10 => {
                switch.kill_open();
                "silent failovers"
            }
            10..12 => {
                switch.silence(true);
                tokio::time::sleep(while_it_lasts).await;
                switch.silence(false);
                "silent networks"
            }
            12..14 => {
                let mut admin = cluster.connect("postgres").await;
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                           WHERE application_name LIKE 'idempotency-ledger%' AND random() < 0.5";
                admin.execute(end).await.unwrap();
                "times backends ended"
            }
            14 => {
                let pids = cluster.pause();
                tokio::time::sleep(while_it_lasts).await;
                signal("CONT", &pids);
                "times Postgres stopped for a while"
            }
            _ => {
                cluster.crash();
                tokio::task::block_in_place(|| cluster.run());
                "crashes of Postgres"
            }
        };
        *counts.entry(what).or_default() += 1;
    }
    counts
}

/// The reader of a log stalls for a while, whatever else happens to its server meanwhile. The first one's is never ended:
/// how often it did not answer before its log was read again.
async fn harm_logs(
    until: Instant,
    random: &mut Random,
    logs: &[LogReader],
    first: SocketAddr,
) -> (Counts, u64) {
    let (mut counts, mut silent) = (Counts::new(), 0);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200 + random.below(2_000))).await;
        let number = if random.percent(50) { 0 } else { random.below(logs.len() as u64) as usize };
        logs[number].stall(true);
        tokio::time::sleep(Duration::from_millis(1_000 + random.below(9_000))).await;
        if number == 0 && !lives(first).await {
            silent += 1;
        }
        logs[number].stall(false);
        *counts.entry("times a log not read").or_default() += 1;
    }
    (counts, silent)
}

/// Whether it answers, also if it is stopped for a while.
async fn lives(address: SocketAddr) -> bool {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap().timeout(ANSWERS_WITHIN);
    let request = HealthCheckRequest { service: "liveness".into() };
    HealthClient::new(endpoint.connect_lazy()).check(request).await.is_ok()
}

/// Somebody else's transaction holds rows for a while.
async fn hold(cluster: &Cluster, statement: &str, time: Duration) {
    let mut other = cluster.connect("postgres").await;
    other.execute("BEGIN").await.unwrap();
    // A deadlock with a batch, say: then nothing is held.
    let _held = other.execute(sqlx::AssertSqlSafe(statement.to_owned())).await;
    tokio::time::sleep(time).await;
    other.execute("ROLLBACK").await.unwrap();
}

/// What the replica that is never ended uses: a long run ends with no more than a tenth above its fifth minute.
async fn watch_memory(run: &mut Run, until: Instant, pid: u32) -> String {
    let (started, mut samples, mut warm) = (Instant::now(), Vec::new(), None);
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_secs(1)).await;
        samples.push(resident_kib(pid));
        if warm.is_none() && started.elapsed() >= WARM {
            warm = Some(median(&samples));
        }
        run.progress(started.elapsed().as_secs(), format!("{} MiB resident", median(&samples) / 1_024));
    }
    let end = median(&samples);
    let Some(warm) = warm else { return format!("{} MiB resident", end / 1_024) };
    if end * 10 > warm * 11 {
        run.fail(format!("{end} KiB resident at the end, {warm} after {WARM:?}"), &[]);
    }
    format!("{} MiB resident after {} min, {} at the end", warm / 1_024, WARM.as_secs() / 60, end / 1_024)
}

/// Of the last samples.
fn median(samples: &[u64]) -> u64 {
    let mut last = samples[samples.len().saturating_sub(SAMPLES)..].to_vec();
    last.sort_unstable();
    last[last.len() / 2]
}

fn resident_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the replica lives");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
