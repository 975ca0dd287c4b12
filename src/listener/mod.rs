//! The accept loop: the home of everything that is decided for a connection as a whole. How many there
//! may be, of each address too, within which time each must begin to speak HTTP/2, how long it may live, and how each
//! ends when the server drains.

mod addresses;
mod connection;
mod fairness;
mod handshake;
mod io;
mod lifetime;
mod options;
mod protocol;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

pub(crate) use self::addresses::{Addresses, FromAddress};
use self::io::keepalive;
pub use self::options::ConnectionLimits;
pub(crate) use self::options::{AcceptOptions, Places, Takes};
use crate::accounts::{Answer, ConnectionAccount};
use crate::common::log_limit::warn_once_a_second;
use crate::identity::{Guard, Peer};
use crate::listener::fairness::scheduler::Line;
use crate::listener::lifetime::Life;
pub(crate) use crate::listener::protocol::http1_heads::BadHead;
use crate::metrics::{Closed, Metrics};

/// How long to wait after the operating system had none to give: without that the loop would spin.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// The log says at most this often that all places are taken.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Serves the connections of a listener until `closing`, as many concurrently as there are places. The
/// next one waits without a task, and those beyond it in the operating system's own queue, which is bounded too. Returns when
/// all have ended.
/// `service_of` makes the service of one connection, whose calls its account holds and whose streams end when its token says
/// so; `guard` says whether it begins with TLS.
pub(crate) async fn run<S>(
    listener: TcpListener,
    AcceptOptions { takes, places, limits, call_max, accounts }: AcceptOptions,
    guard: Guard,
    service_of: impl Fn(Peer, Arc<ConnectionAccount>, CancellationToken) -> S + Send + Sync + 'static,
    metrics: Metrics,
    closing: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<Answer>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let Places { all: places, by_address: addresses } = places;
    let life = Life::new(limits, call_max);
    let readers = Line::new();
    let connections = TaskTracker::new();
    let service_of = Arc::new(service_of);
    let mut warned: Option<Instant> = None;
    loop {
        let Some((stream, from)) = until(&closing, accepted(&listener)).await else { break };
        let address = from.ip();
        let counted = addresses.as_ref().map(|addresses| addresses.connected(address));
        // Before it costs more than its acceptance. There is no call yet that could be told why.
        if let Some(None) = counted {
            metrics.closed(Closed::PerAddress);
            warn_once_a_second!(%address, "connections_per_address_max is reached: a connection was closed");
            continue;
        }
        if places.available_permits() == 0 && warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            tracing::warn!("connections_max is reached: new connections wait until others end");
            warned = Some(Instant::now());
        }
        // Only now: two listeners share the places, and one that waits for a connection must not keep any. The semaphore is
        // never closed.
        let Some(Ok(place)) = until(&closing, Arc::clone(&places).acquire_owned()).await else { break };
        let opening = handshake::opened(stream, address, guard.trust().tls, takes);
        let service_of = Arc::clone(&service_of);
        let service_of = move |peer, account, leaving| service_of(peer, account, leaving);
        let terms = connection::Terms {
            life,
            metrics: metrics.clone(),
            accounts: accounts.clone(),
            line: readers.clone(),
            closing: closing.clone(),
        };
        let serving = connection::serve(opening, service_of, terms);
        connections.spawn(async move {
            serving.await;
            drop((place, counted));
        });
    }
    // Who connects from now on is refused, and tries another server.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// What the work gives; none once `closing` comes first.
async fn until<T>(closing: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = closing.cancelled() => None,
        done = work => Some(done),
    }
}

async fn accepted(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                // Answers are small: none may wait for more.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY was not set");
                }
                if let Err(error) = keepalive::ask(&stream) {
                    tracing::debug!(%error, "it is not watched whether the other end is there");
                }
                return (stream, from);
            }
            Err(error) => {
                warn_once_a_second!(%error, "a connection was not accepted: is the limit of open files too low?");
                sleep(AFTER_ERROR).await;
            }
        }
    }
}
