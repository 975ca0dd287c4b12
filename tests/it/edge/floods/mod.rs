//! Clients by the hundred or, with a size, by the thousand, that take what they can: each is refused as documented, memory
//! stays bounded, and a healthy client beside them has all its calls answered. How long it waits is told, and not judged:
//! machines differ. With a size all clients of a flood share one processor, floods come one by one, and connections a
//! thousand a second.

mod bodies;
mod connections;
mod door;
mod errors;
mod frames;
mod held;
mod imports;
mod neighbours;
mod principals;
mod tenants;

use std::future::Future;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};

pub(super) use self::tenants::gauge;
use super::Edge;
use crate::harness::details::{acquired, claim, refusal};
use crate::harness::timer::Timer;
use crate::identity::by;
use crate::proof::run::Run;

/// How many clients a flood has.
const SMALL: u64 = 300;
const CALM: Duration = Duration::from_secs(2);
/// From one call of the healthy client to the next: a hundred a second.
const PACE: Duration = Duration::from_millis(10);
/// From a refusal of the healthy client to its next try.
const REPEATED_AFTER: Duration = Duration::from_millis(500);
/// For how long calls of the healthy client may wait, without the machine's delays.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// A consumer with so many commands in the queue, and no more, is never refused because others fill it: docs/configuration.md.
const RESERVED: usize = 16;
/// From one connection of a flood to the next.
const OPENED_EVERY: Duration = Duration::from_millis(1);
/// What a server without a flood has in memory at most, as docs/configuration.md says.
const PROCESS_MIB: u64 = 64;
/// What any flood may take beside what is told for it.
const MEMORY_MAX: u64 = 100;

/// A client that behaves well.
#[derive(Clone)]
struct Healthy {
    way: Endpoint,
    /// Calls take them in turn; without any they bring none.
    tokens: Vec<String>,
}

impl Healthy {
    fn of(edge: &Edge) -> Healthy {
        let way = Endpoint::from_shared(format!("http://{}", edge.server.address)).unwrap();
        Healthy { way, tokens: Vec::new() }
    }

    /// Begins a call at each of its instants, whatever is under way, until it is told when to stop. It has a thread of its
    /// own, so that it does not wait for what the flood's clients do. Each call must be answered. How long they took, each
    /// from the instant at which it should have begun.
    fn calls(
        self,
        name: &'static str,
        end: Arc<OnceLock<Instant>>,
        large: bool,
    ) -> JoinHandle<Vec<Duration>> {
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || {
            if large {
                let this = std::fs::read_link("/proc/thread-self").unwrap();
                on_processors(&all_processors(), &["-p", "-c"], this.file_name().unwrap().to_str().unwrap());
            }
            alone.block_on(self.call(name, &end))
        })
    }

    async fn call(self, name: &'static str, end: &OnceLock<Instant>) -> Vec<Duration> {
        let client = LedgerServiceClient::new(self.way.connect().await.unwrap());
        let (mut took, mut calls, mut pace) = (Vec::new(), JoinSet::new(), tokio::time::interval(PACE));
        let (this, under_way) = (Arc::new(self), Arc::new(AtomicUsize::new(0)));
        let timer = Timer::start();
        for number in 0.. {
            // An instant that was missed comes at once.
            let at = pace.tick().await.into_std();
            if end.get().is_some_and(|end| at >= *end) {
                break;
            }
            while let Some(answered) = calls.try_join_next() {
                took.push(answered.unwrap());
            }
            let waits = PACE * u32::try_from(calls.len()).unwrap();
            assert!(
                waits < WAIT_MAX + timer.delayed(),
                "{name}: {} calls wait for their answers",
                calls.len()
            );
            let (this, client, under_way) = (Arc::clone(&this), client.clone(), Arc::clone(&under_way));
            calls.spawn(async move {
                under_way.fetch_add(1, Ordering::Relaxed);
                this.answered(client, name, number, &under_way).await;
                under_way.fetch_sub(1, Ordering::Relaxed);
                at.elapsed()
            });
        }
        took.extend(calls.join_all().await);
        took.sort_unstable();
        took
    }

    /// One call until it is answered. Where the machine was busy, and more calls of this client wait than have places reserved, it
    /// repeats a refused one, as clients do.
    async fn answered(
        &self,
        mut client: LedgerServiceClient<Channel>,
        name: &str,
        number: usize,
        under_way: &AtomicUsize,
    ) {
        loop {
            let request = claim("healthy", &format!("{name} {number}"));
            let request = match self.tokens.get(number % self.tokens.len().max(1)) {
                Some(token) => by(token, request),
                None => tonic::Request::new(request),
            };
            match client.claim(request).await {
                Ok(answer) => return drop(acquired(&answer.into_inner())),
                Err(status) => {
                    let reserved = under_way.load(Ordering::Relaxed) <= RESERVED;
                    assert!(!reserved && refusal(&status).reason == "OVERLOADED", "{name}: {status:?}");
                }
            }
            tokio::time::sleep(REPEATED_AFTER).await;
        }
    }
}

/// What a thread had to say; nobody here waits for it meanwhile.
async fn joined(thread: JoinHandle<Vec<Duration>>) -> Vec<Duration> {
    tokio::task::spawn_blocking(|| thread.join().unwrap()).await.unwrap()
}

/// What a healthy client saw beside a flood, and what the server had in memory.
struct Beside {
    calm: Vec<Duration>,
    during: Vec<Duration>,
    lasted: Duration,
    rss: u64,
    most: u64,
}

fn p99(sorted: &[Duration]) -> f64 {
    let place = (sorted.len() * 99 / 100).min(sorted.len() - 1);
    sorted[place].as_secs_f64() * 1_000.0
}

fn slowest(sorted: &[Duration]) -> f64 {
    sorted.last().map_or(0.0, |last| last.as_secs_f64() * 1_000.0)
}

impl Beside {
    /// Tells it, after looking that memory was bounded.
    fn told(&self, run: &Run, what: &str, extra_mib: u64) {
        let Beside { calm, during, lasted, rss, most } = self;
        assert!(*rss <= PROCESS_MIB, "{rss} MiB without a flood");
        let rate = during.len() as f64 / lasted.as_secs_f64();
        let told = format!(
            "{what}; at most {} MiB more than the calm {rss}; beside it {} calls of a healthy client, {rate:.1} a \
             second, all answered, p99 {:.1} ms, slowest {:.1}, calm {:.1} ms",
            most.saturating_sub(*rss),
            during.len(),
            p99(during),
            slowest(during),
            p99(calm)
        );
        assert!(*most <= rss + MEMORY_MAX + extra_mib, "{told}");
        // How long they took is not judged; how many they were follows from their instants.
        assert!(rate > 90.0, "{told}");
        run.summary(told);
    }
}

/// Large floods come one after the other.
static ONE_BY_ONE: Mutex<()> = Mutex::const_new(());

/// All of this machine's, as they were before any was taken from this process.
fn all_processors() -> String {
    static ALL: OnceLock<usize> = OnceLock::new();
    format!("0-{}", ALL.get_or_init(|| std::thread::available_parallelism().unwrap().get()) - 1)
}

/// Lets a process, or one thread of it, run there alone.
fn on_processors(which: &str, options: &[&str], id: &str) {
    let output = Command::new("taskset").args(options).args([which, id]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// All clients of floods on the first processor, whatever they send; the server on all.
fn on_one_processor(edge: &Edge) {
    let all = all_processors();
    on_processors("0", &["-a", "-p", "-c"], &std::process::id().to_string());
    on_processors(&all, &["-a", "-p", "-c"], &edge.pid().to_string());
}

/// A flood beside a healthy client, which was alone for a while before.
async fn beside<T>(run: &Run, edge: &Edge, healthy: &Healthy, flood: impl Future<Output = T>) -> (T, Beside) {
    let large = run.size > SMALL;
    let _turn = if large {
        let turn = ONE_BY_ONE.lock().await;
        on_one_processor(edge);
        Some(turn)
    } else {
        None
    };
    let calls = |name| {
        let end = Arc::new(OnceLock::new());
        (healthy.clone().calls(name, Arc::clone(&end), large), end)
    };
    let (calm, end) = calls("calm");
    tokio::time::sleep(CALM).await;
    end.set(Instant::now()).unwrap();
    let calm = joined(calm).await;
    let (rss, mut most) = (edge.rss(), 0);
    let (during, end) = calls("during");
    let watch = async {
        loop {
            most = most.max(edge.rss());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let began = Instant::now();
    let done = tokio::select! {
        done = flood => done,
        () = watch => unreachable!(),
    };
    // A flood that is over at once is looked at for a while, too.
    tokio::time::sleep(CALM.saturating_sub(began.elapsed())).await;
    let lasted = began.elapsed();
    end.set(Instant::now()).unwrap();
    let most = most.max(edge.rss());
    (done, Beside { calm, during: joined(during).await, lasted, rss, most })
}

/// A connection from another address of this machine than the healthy client's.
async fn from_elsewhere(edge: &Edge) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    tokio::time::sleep(OPENED_EVERY).await;
    socket.connect(edge.server.address.parse().unwrap()).await.unwrap()
}

/// Waits until the server ends a connection; whether it did within that time.
async fn ended(stream: &mut TcpStream, within: Duration) -> bool {
    let mut said = vec![0; 16_384];
    let reading = async { while matches!(stream.read(&mut said).await, Ok(1..)) {} };
    tokio::time::timeout(within, reading).await.is_ok()
}
