//! The servers behind an endpoint: a connection to each, calls in turn to those that accept them.
//!
//! tonic's own channel of several endpoints has no health checks, and does not say when a connection is lost. So each
//! server has a channel with one connection, and a task that makes another channel when that connection has ended. The
//! task watches `grpc.health.v1.Health` for `accepting`, as deploy/clients does: a server that drains gets no new calls. A
//! server without a health service is taken for healthy.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpStream, lookup_host},
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::{io::InspectReader, sync::CancellationToken, task::AbortOnDropHandle};
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::connection::{Places, Target};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A name is looked up again where a connection was lost or could not be made: at most this often.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);
/// A connection that is gone without a sign is noticed after both, rather than by TCP after a quarter of an hour.
const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// What the tasks of the servers share.
struct Shared {
    target: Target,
    ready: watch::Sender<Vec<(SocketAddr, Channel)>>,
    /// Why no server was reached, for people.
    why: Mutex<String>,
    lost: Notify,
}

impl Shared {
    fn ready(&self, address: SocketAddr, channel: &Channel) {
        self.ready.send_modify(|ready| {
            ready.retain(|(known, _)| *known != address);
            ready.push((address, channel.clone()));
        });
    }

    fn unready(&self, address: SocketAddr, why: &str) {
        why.clone_into(&mut self.why.lock().unwrap_or_else(PoisonError::into_inner));
        self.ready.send_if_modified(|ready| {
            let before = ready.len();
            ready.retain(|(known, _)| *known != address);
            ready.len() != before
        });
    }
}

/// The servers. Their tasks and connections end when this is dropped; calls under way keep theirs.
pub(crate) struct Servers {
    shared: Arc<Shared>,
    next: AtomicUsize,
    _tasks: AbortOnDropHandle<()>,
}

impl Servers {
    /// Begins to connect, within the runtime of the caller.
    pub(crate) fn of(target: Target) -> Self {
        let (ready, why, lost) = (watch::Sender::new(Vec::new()), Mutex::default(), Notify::new());
        let shared = Arc::new(Shared { target, ready, why, lost });
        let tasks = AbortOnDropHandle::new(tokio::spawn(manage(Arc::clone(&shared))));
        Self { shared, next: AtomicUsize::new(0), _tasks: tasks }
    }

    /// The channel of the server whose turn it is; waits until one accepts calls.
    pub(crate) async fn channel(&self) -> Option<Channel> {
        let mut changes = self.shared.ready.subscribe();
        let ready = changes.wait_for(|ready| !ready.is_empty()).await.ok()?;
        let turn = self.next.fetch_add(1, Relaxed) % ready.len();
        Some(ready[turn].1.clone())
    }

    /// Why no server was reached.
    pub(crate) fn why(&self) -> String {
        self.shared.why.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Keeps a task for each address of the target.
async fn manage(shared: Arc<Shared>) {
    let mut kept: HashMap<SocketAddr, AbortOnDropHandle<()>> = HashMap::new();
    loop {
        let (found, again) = match &shared.target.places {
            Places::Listed(addresses) => (addresses.clone(), false),
            Places::Named(name) => match lookup_host(name).await {
                Ok(found) => (found.collect(), true),
                Err(error) => {
                    let why = format!("{name} is not found: {error}");
                    *shared.why.lock().unwrap_or_else(PoisonError::into_inner) = why;
                    sleep(LOOKUP_PAUSE).await;
                    continue;
                }
            },
        };
        for address in kept.keys().filter(|known| !found.contains(known)) {
            shared.unready(*address, "the server's name has other addresses now");
        }
        kept.retain(|known, _| found.contains(known));
        for address in found {
            let begin = || AbortOnDropHandle::new(tokio::spawn(keep(Arc::clone(&shared), address)));
            kept.entry(address).or_insert_with(begin);
        }
        if !again {
            return std::future::pending().await;
        }
        shared.lost.notified().await;
        sleep(LOOKUP_PAUSE).await;
    }
}

/// Keeps a connection to one server.
async fn keep(shared: Arc<Shared>, address: SocketAddr) {
    let mut pause = FIRST_PAUSE;
    loop {
        match connect(&shared.target, address).await {
            Ok((channel, ended)) => {
                tokio::select! {
                    () = ended.cancelled() => {}
                    () = health(&shared, address, &channel, &mut pause) => {}
                }
                shared.unready(address, "the connection was lost");
            }
            Err(error) => shared.unready(address, &format!("{address}: {}", chain(&*error))),
        }
        shared.lost.notify_one();
        // With jitter: the clients of a server that was replaced do not come back together.
        sleep(pause.mul_f64(0.8 + fastrand::f64() * 0.4)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A channel with one connection, and a token that is cancelled when the connection accepts no further calls.
async fn connect(target: &Target, address: SocketAddr) -> Result<(Channel, CancellationToken), Problem> {
    let endpoint = Endpoint::from(target.uri.clone())
        .user_agent(concat!("idempotency-ledger-client/", env!("CARGO_PKG_VERSION")))?
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    #[cfg(feature = "tls")]
    let endpoint = match target.tls()? {
        Some(tls) => endpoint.tls_config(tls)?,
        None => endpoint,
    };
    let ended = CancellationToken::new();
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    // The guard is dropped together with the connection.
    let guard = ended.clone().drop_guard();
    let mut once = Some(TokioIo::new(InspectReader::new(stream, move |_: &[u8]| {
        let _alive = &guard;
    })));
    let asked_again = ended.clone();
    let connector = tower::service_fn(move |_| {
        let given = once.take().ok_or(NoMoreCalls); // The channel asks for another connection.
        if given.is_err() {
            asked_again.cancel();
        }
        std::future::ready(given)
    });
    let channel = timeout(CONNECT_TIMEOUT, endpoint.connect_with_connector(connector)).await??;
    Ok((channel, ended))
}

/// Says whether the server accepts calls, for as long as its connection lasts.
async fn health(shared: &Shared, address: SocketAddr, channel: &Channel, pause: &mut Duration) {
    let mut client = HealthClient::new(channel.clone());
    let mut wait = FIRST_PAUSE;
    loop {
        let request = HealthCheckRequest { service: "accepting".to_owned() };
        let mut answers = match client.watch(request).await {
            Ok(answers) => answers.into_inner(),
            Err(status) if status.code() == Code::Unimplemented => {
                *pause = FIRST_PAUSE;
                shared.ready(address, channel);
                return std::future::pending().await;
            }
            Err(status) => {
                shared.unready(address, &format!("{address}: its health is not known: {:?}", status.code()));
                sleep(wait).await;
                wait = (wait * 2).min(LONGEST_PAUSE);
                continue;
            }
        };
        while let Ok(Some(answer)) = answers.message().await {
            if answer.status != ServingStatus::Serving as i32 {
                break;
            }
            (wait, *pause) = (FIRST_PAUSE, FIRST_PAUSE);
            shared.ready(address, channel);
        }
        shared.unready(address, &format!("{address} accepts no new calls"));
        // Not watched meanwhile: an open stream would keep a server that drains from ending in good order.
        drop(answers);
        sleep(wait).await;
        wait = (wait * 2).min(LONGEST_PAUSE);
    }
}

/// The call was not sent: its connection accepts no further calls (GOAWAY), even if some are still under way.
#[derive(Debug, thiserror::Error)]
#[error("the connection accepts no further calls")]
struct NoMoreCalls;

/// Whether an error says that the call was certainly not sent.
pub(crate) fn is_unsent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(cause) = next {
        if cause.is::<NoMoreCalls>() {
            return true;
        }
        next = cause.source();
    }
    false
}

/// An error with its causes, each once.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}
