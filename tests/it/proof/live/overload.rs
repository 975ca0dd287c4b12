//! More is asked than the store can do: one to ten times as much, at instants that wait for no answer. What is carried
//! out stays near the most that ever is, the rest is refused at once, memory is bounded, and all is well soon after.
//!
//! The store is slow by itself: each of its commits waits for a tenth of a second. So ten times of what it can do is
//! little for this machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::sync::Mutex;
use tonic::Request;
use tonic::transport::{Channel, Endpoint};

use super::replicas::Replica;
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::postgres::{Cluster, free_port};
use crate::harness::server::migrate_postgres;
use crate::harness::timer::Timer;
use crate::proof::run::Run;

/// With them a server of this suite does about sixty messages a second.
const SLOW: &str = "commit_delay = 100000\ncommit_siblings = 0";
const SETTINGS: [&str; 6] = ["--batch-max", "8", "--queue-max", "160", "--batch-items-max", "16"];
const STEPS: [u64; 5] = [1, 2, 4, 7, 10];
const CONNECTIONS: usize = 16;
/// As many as keep both sessions busy, and none of whom is refused.
const CLIENTS: usize = 64;
const WARM: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);
/// The least share of its capacity that an overloaded server must serve. A small run has a lower share and repeats all steps, since
/// other tests run meanwhile: a server that falls short does so in each round.
const SHARE: f64 = 0.9;
const SHARE_SMALL: f64 = 0.8;
const ROUNDS_SMALL: usize = 5;
/// The least percentage of refusals that must be sent immediately: within 5 ms, and in a small run within half the time of a commit.
/// A small run needs as much less as the machine delays it.
const IMMEDIATELY: f64 = 99.0;
/// A completion may only be refused in a small run, if the machine has delayed this message for as long: then as many completions
/// arrive together as the queue has room for, beyond its claims. It is repeated.
const REFUSED_AFTER: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_millis(250);
const REPEATS: usize = 20;
/// How often calls begin.
const TICK: Duration = Duration::from_millis(5);
const MEMORY_MAX_KIB: u64 = 256 * 1_024;
/// After the last step one message takes no longer than this, two commits, within `NORMAL_WITHIN`.
const NORMAL: Duration = Duration::from_secs(1);
const NORMAL_WITHIN: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Seen {
    asked: AtomicU64,
    granted: AtomicU64,
    completed: AtomicU64,
    refused: AtomicU64,
    /// Whatever else was answered, by its reason.
    others: Mutex<BTreeMap<String, u64>>,
}

struct Load {
    clients: Vec<LedgerServiceClient<Channel>>,
    seen: Arc<Seen>,
    next: AtomicU64,
    /// Whether the machine's delays count.
    alone: bool,
}

impl Load {
    /// A message: a claim, and where it is granted, its completion.
    fn message(&self) -> impl Future<Output = ()> + Send + use<> {
        let number = self.next.fetch_add(1, Relaxed);
        let (mut client, seen) =
            (self.clients[number as usize % CONNECTIONS].clone(), Arc::clone(&self.seen));
        let (alone, timer) = (self.alone, Timer::start());
        async move {
            let id = format!("m{number}");
            seen.asked.fetch_add(1, Relaxed);
            let answer = match client.claim(timely(claim("overload", &id))).await {
                Ok(answer) => answer.into_inner(),
                Err(status) if refusal(&status).reason == "OVERLOADED" => {
                    seen.refused.fetch_add(1, Relaxed);
                    return;
                }
                Err(status) => return seen.other(&format!("claim: {status}")).await,
            };
            seen.granted.fetch_add(1, Relaxed);
            let token = acquired(&answer).token;
            let done = proto::CompleteRequest { key: key("overload", &id), token, ..Default::default() };
            for _ in 0..=REPEATS {
                match client.complete(timely(done.clone())).await {
                    Ok(_) => drop(seen.completed.fetch_add(1, Relaxed)),
                    Err(status)
                        if !alone
                            && refusal(&status).reason == "OVERLOADED"
                            && timer.delayed() >= REFUSED_AFTER =>
                    {
                        tokio::time::sleep(AGAIN).await;
                        continue;
                    }
                    Err(status) => seen.other(&format!("complete: {status}")).await,
                }
                return;
            }
            seen.other("complete: refused each time").await;
        }
    }

    /// Begins so many messages a second, for a while; how many a second were completed meanwhile.
    async fn open(&self, rate: f64, time: Duration) -> f64 {
        let (started, before) = (Instant::now(), self.seen.completed.load(Relaxed));
        let mut begun = 0.0;
        while started.elapsed() < time {
            while begun < rate * started.elapsed().as_secs_f64() {
                tokio::spawn(self.message());
                begun += 1.0;
            }
            tokio::time::sleep(TICK).await;
        }
        (self.seen.completed.load(Relaxed) - before) as f64 / started.elapsed().as_secs_f64()
    }

    /// As much as can be done, by so many that each wait for their answers.
    async fn closed(&self, clients: usize, time: Duration) -> f64 {
        let (started, before) = (Instant::now(), self.seen.completed.load(Relaxed));
        let work = (0..clients).map(|_| async {
            while started.elapsed() < time {
                self.message().await;
            }
        });
        futures_util::future::join_all(work).await;
        (self.seen.completed.load(Relaxed) - before) as f64 / started.elapsed().as_secs_f64()
    }
}

impl Load {
    /// Waits until whatever was asked is answered, at most for this time.
    async fn ends(&self, within: Duration) {
        let (since, seen) = (Instant::now(), &self.seen);
        let open = || {
            let (granted, completed) = (seen.granted.load(Relaxed), seen.completed.load(Relaxed));
            granted != completed || seen.asked.load(Relaxed) != granted + seen.refused.load(Relaxed)
        };
        while open() && since.elapsed() < within {
            tokio::time::sleep(TICK).await;
        }
    }
}

impl Seen {
    async fn other(&self, what: &str) {
        *self.others.lock().await.entry(what.to_owned()).or_default() += 1;
    }
}

fn timely<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

/// Of the calls of Claim so far: how many the server has ended within this, by the bound of a bucket.
async fn ended_within(server: &Replica, bound: &str) -> f64 {
    // Both labels, in the order of their names.
    let labels = format!(
        "grpc_method=\"Claim\",grpc_service=\"idempotency.ledger.v1.LedgerService\",grpc_type=\"unary\",le=\"{bound}\""
    );
    server.metric("grpc_server_handling_seconds_bucket", &labels).await
}

fn mean(shares: &[f64]) -> f64 {
    shares.iter().sum::<f64>() / shares.len() as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overload_costs_little_of_what_can_be_done() {
    let mut run = Run::new("overload", 10);
    let large = std::env::var_os("LEDGER_PROOF_SIZE").is_some() && run.size > 10;
    let cluster = tokio::task::spawn_blocking(|| Cluster::start(SLOW)).await.unwrap();
    migrate_postgres(&cluster.url("postgres")).await;
    let folder = tempfile::tempdir().unwrap();
    let mut server = Replica::new(folder.path(), &cluster.url("postgres"));
    server.observed = Some(SocketAddr::from(([127, 0, 0, 1], free_port())));
    server.settings = SETTINGS.map(str::to_owned).to_vec();
    server.start(None);
    server.listens().await;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address)).unwrap();
    let clients = (0..CONNECTIONS).map(|_| LedgerServiceClient::new(endpoint.connect_lazy())).collect();
    let load = Load { clients, seen: Arc::default(), next: AtomicU64::new(0), alone: large };
    let step = Duration::from_secs(run.size) / STEPS.len() as u32;
    load.closed(CLIENTS, WARM).await;
    let (mut steps, mut shares, mut memory) = (Vec::new(), Vec::new(), 0);
    let (fast, slow) = (ended_within(&server, "0.005").await, ended_within(&server, "0.05").await);
    let timer = Timer::start();
    let rounds = if large { 1 } else { ROUNDS_SMALL };
    for (number, times) in (0..rounds).flat_map(|_| STEPS.into_iter().enumerate()) {
        if number == 0 && !shares.is_empty() {
            if mean(&shares) >= SHARE_SMALL {
                break;
            }
            (steps, shares) = (Vec::new(), Vec::new());
            load.ends(DEADLINE * 2).await;
        }
        // What can be done now: other work of the machine comes and goes.
        let refused = load.seen.refused.load(Relaxed);
        let peak = load.closed(CLIENTS, step / 3).await;
        assert_eq!(load.seen.refused.load(Relaxed), refused, "refused, and nobody asks for too much");
        load.open(peak * times as f64, step / 3).await;
        let done = load.open(peak * times as f64, step / 3).await;
        if times > 1 {
            shares.push(done / peak);
        }
        if !load.seen.others.lock().await.is_empty() {
            break;
        }
        memory = memory.max(server.resident_kib());
        steps.push(format!("{times} x {peak:.0}: {done:.0}"));
        run.progress((number as u64 + 1) * run.size / STEPS.len() as u64, format!("s; {}", steps.join(", ")));
        if times != STEPS[STEPS.len() - 1] {
            load.ends(DEADLINE * 2).await;
        }
    }
    // Grants and completions wait for a commit: whatever ends sooner was refused.
    let refused = load.seen.refused.load(Relaxed) as f64;
    let within = |now: f64, before: f64| 100.0 * (now - before) / refused.max(1.0);
    let fast = within(ended_within(&server, "0.005").await, fast);
    let slow = within(ended_within(&server, "0.05").await, slow);
    let undelayed = timer.took().as_secs_f64() / timer.elapsed().as_secs_f64();
    let passed = |timer: &Timer| if large { timer.elapsed() } else { timer.took() };
    let over = Timer::start();
    let normal = loop {
        let asked = Timer::start();
        let before = load.seen.completed.load(Relaxed);
        load.message().await;
        let well = passed(&asked) < NORMAL && load.seen.completed.load(Relaxed) > before;
        if well || passed(&over) > NORMAL_WITHIN {
            break passed(&over);
        }
    };
    load.ends(DEADLINE * 2).await;
    let (least, mean) = (shares.iter().copied().fold(f64::MAX, f64::min), mean(&shares));
    let seen = format!(
        "messages a second, asked and done: {}; beyond the most {:.0} % of it, {:.0} % at the least; {refused:.0} refused of {} claims, {fast:.2} % \
         of these within 5 ms and {slow:.2} % within 50 ms at the server; at most {} MiB resident; normal after {} ms",
        steps.join(", "),
        mean * 100.0,
        least * 100.0,
        load.seen.asked.load(Relaxed),
        memory / 1_024,
        normal.as_millis()
    );
    // Next to other tests a machine does what it can: all steps of a round are judged together.
    let (share, immediately) =
        if large { (SHARE, IMMEDIATELY) } else { (SHARE_SMALL, IMMEDIATELY * undelayed) };
    let judged = if large { least } else { mean };
    let others = load.seen.others.lock().await.clone();
    let (granted, completed) = (load.seen.granted.load(Relaxed), load.seen.completed.load(Relaxed));
    for (problem, is_one) in [
        (format!("answers that nobody expects: {others:?}"), !others.is_empty()),
        (format!("{granted} granted, {completed} completed"), granted != completed),
        ("nothing was refused: that was no overload".to_owned(), refused == 0.0),
        (format!("less than {share} of the most"), judged < share),
        (
            format!("less than {immediately} % of the refusals immediately"),
            (if large { fast } else { slow }) < immediately,
        ),
        ("too much memory".to_owned(), memory > MEMORY_MAX_KIB),
        (format!("not normal within {NORMAL_WITHIN:?}"), normal > NORMAL_WITHIN),
    ] {
        if is_one {
            run.fail(format!("{problem}: {seen}"), &[]);
        }
    }
    run.summary(seen);
}
