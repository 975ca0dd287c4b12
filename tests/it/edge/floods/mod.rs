//! Clients by the hundred or, with a size, by the thousand, that take what they can: each is refused as documented, memory
//! stays bounded, and a healthy client beside them has all its calls answered. How long it waits is told, and not judged:
//! machines differ. With a size all clients share one processor, floods come one by one, and connections a thousand a
//! second.

mod bodies;
mod connections;
mod frames;
mod principals;

use std::future::Future;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use idempotency_ledger::rpc::proto::ledger_service_client::LedgerServiceClient;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;
use tonic::transport::Endpoint;

use super::Edge;
use crate::harness::details::{acquired, claim};
use crate::identity::by;
use crate::proof::run::Run;

/// How many clients a flood has.
const SMALL: u64 = 300;
const CALM: Duration = Duration::from_secs(2);
/// From one call of the healthy client to the next: a hundred a second.
const PACE: Duration = Duration::from_millis(10);
/// From one connection of a flood to the next.
const OPENED_EVERY: Duration = Duration::from_millis(1);
/// What any flood may take beside what is told for it.
const MEMORY_MAX: u64 = 100;

/// A client that behaves well.
#[derive(Clone)]
struct Healthy {
    way: Endpoint,
    token: String,
    /// From one call to the next.
    every: Duration,
}

impl Healthy {
    fn of(edge: &Edge) -> Healthy {
        let way = Endpoint::from_shared(format!("http://{}", edge.server.address)).unwrap();
        Healthy { way, token: String::new(), every: PACE }
    }

    /// Calls until it is told to stop, on a thread of its own, so that it does not wait for what the flood's clients do: each
    /// call must be answered. How long they took.
    fn calls(self, name: &'static str, stop: Arc<AtomicBool>) -> JoinHandle<Vec<Duration>> {
        let alone = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        std::thread::spawn(move || alone.block_on(self.call(name, stop)))
    }

    async fn call(self, name: &'static str, stop: Arc<AtomicBool>) -> Vec<Duration> {
        let mut client = LedgerServiceClient::new(self.way.connect().await.unwrap());
        let (mut took, mut pace) = (Vec::new(), tokio::time::interval(self.every));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while !stop.load(Ordering::SeqCst) {
            pace.tick().await;
            let asked = Instant::now();
            let request = claim("healthy", &format!("{name} {}", took.len()));
            let request =
                if self.token.is_empty() { tonic::Request::new(request) } else { by(&self.token, request) };
            let answer = client.claim(request).await;
            acquired(&answer.unwrap_or_else(|status| panic!("{name}: {status:?}")).into_inner());
            took.push(asked.elapsed());
        }
        took.sort_unstable();
        took
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
        let Beside { calm, during, rss, most } = self;
        let told = format!(
            "{what}; at most {} MiB more than the calm {rss}; beside it {} calls of a healthy client answered, p99 {:.1} ms, \
             slowest {:.1}, calm {:.1} ms",
            most.saturating_sub(*rss),
            during.len(),
            p99(during),
            slowest(during),
            p99(calm)
        );
        assert!(*most <= rss + MEMORY_MAX + extra_mib, "{told}");
        // How long they took is not judged.
        assert!(during.len() >= 3, "{told}");
        run.summary(told);
    }
}

/// Large floods come one after the other.
static ONE_BY_ONE: Mutex<()> = Mutex::const_new(());

/// All clients on the first processor, whatever they send; the server on all.
fn on_one_processor(edge: &Edge) {
    static ALL: OnceLock<usize> = OnceLock::new();
    // Asked later, it would be one.
    let all = ALL.get_or_init(|| std::thread::available_parallelism().unwrap().get());
    for (pid, which) in [(std::process::id(), "0".to_owned()), (edge.pid(), format!("0-{}", all - 1))] {
        let arguments = ["-a", "-p", "-c", &which, &pid.to_string()];
        let output = Command::new("taskset").args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// A flood beside a healthy client, which was alone for a while before.
async fn beside<T>(run: &Run, edge: &Edge, healthy: &Healthy, flood: impl Future<Output = T>) -> (T, Beside) {
    let _turn = if run.size > SMALL {
        let turn = ONE_BY_ONE.lock().await;
        on_one_processor(edge);
        Some(turn)
    } else {
        None
    };
    let calls = |name| {
        let stop = Arc::new(AtomicBool::new(false));
        (healthy.clone().calls(name, Arc::clone(&stop)), stop)
    };
    let (calm, stop) = calls("calm");
    tokio::time::sleep(CALM).await;
    stop.store(true, Ordering::SeqCst);
    let calm = joined(calm).await;
    let (rss, mut most) = (edge.rss(), 0);
    let (during, stop) = calls("during");
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
    stop.store(true, Ordering::SeqCst);
    let most = most.max(edge.rss());
    (done, Beside { calm, during: joined(during).await, rss, most })
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
