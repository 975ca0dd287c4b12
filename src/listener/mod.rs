//! The accept loop, and all rules for a connection as a whole: the number of connections in all and for each address, the
//! time limit of the handshake, the lifetime, and the end of each when the server drains.

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
pub(crate) use self::options::{AcceptOptions, ConnectionPermits, Protocols};
use crate::accounts::{AnswerBody, ConnectionAccount};
use crate::common::log_limit::warn_once_a_second;
use crate::identity::{Guard, Peer};
use crate::listener::fairness::scheduler::ReadScheduler;
use crate::listener::lifetime::Lifetime;
pub(crate) use crate::listener::protocol::http1_heads::BadHead;
use crate::metrics::{Closed, Metrics};

/// Pause after a failed accept, such as one without a free file descriptor: without it the loop would spin.
const AFTER_ERROR: Duration = Duration::from_millis(100);
/// How often the log may say that no connection permit is free.
const WARN_EVERY: Duration = Duration::from_secs(10);

/// Serves the connections of a listener until `closing`, as many concurrently as there are permits. The next one waits
/// without a task, and the ones after it in the operating system's backlog, which is bounded too. Returns when all have ended.
/// `service_of` makes the service of one connection; the connection's account holds the calls, and the token ends the streams.
/// `guard` has the TLS settings, if the listener has TLS.
pub(crate) async fn run<S>(
    listener: TcpListener,
    AcceptOptions { protocols, permits, limits, call_max, accounts }: AcceptOptions,
    guard: Guard,
    service_of: impl Fn(Peer, Arc<ConnectionAccount>, CancellationToken) -> S + Send + Sync + 'static,
    metrics: Metrics,
    closing: CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response<AnswerBody>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let ConnectionPermits { all: permits, by_address: addresses, .. } = permits;
    let lifetime = Lifetime::new(limits, call_max);
    let scheduler = ReadScheduler::new();
    let connections = TaskTracker::new();
    let service_of = Arc::new(service_of);
    let mut warned: Option<Instant> = None;
    loop {
        let Some((stream, from)) = until(&closing, accepted(&listener)).await else { break };
        let address = from.ip();
        let counted = addresses.as_ref().map(|addresses| addresses.connected(address));
        // Before the connection costs more than its acceptance. No call has begun that could get an error.
        if let Some(None) = counted {
            metrics.closed(Closed::PerAddress);
            warn_once_a_second!(%address, "connections_per_address_max is reached: a connection was closed");
            continue;
        }
        if permits.available_permits() == 0 && warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
            tracing::warn!("connections_max is reached: new connections wait until others end");
            warned = Some(Instant::now());
        }
        // Only now: two listeners share the permits, and the one that waits for a connection must not hold a permit. The
        // semaphore is never closed.
        let Some(Ok(permit)) = until(&closing, Arc::clone(&permits).acquire_owned()).await else { break };
        let opening = handshake::perform(stream, address, guard.trust().tls, protocols);
        let service_of = Arc::clone(&service_of);
        let service_of = move |peer, account, leaving| service_of(peer, account, leaving);
        let context = connection::ConnectionContext {
            lifetime,
            metrics: metrics.clone(),
            accounts: accounts.clone(),
            scheduler: scheduler.clone(),
            closing: closing.clone(),
        };
        let serving = connection::serve(opening, service_of, context);
        connections.spawn(async move {
            serving.await;
            drop((permit, counted));
        });
    }
    // New connections are refused from now on, so that clients try another server.
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// The result of the work; `None` if the listener closes first.
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
                // Answers are small, and must not wait for more bytes (Nagle's algorithm).
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "TCP_NODELAY was not set");
                }
                if let Err(error) = keepalive::configure(&stream) {
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

#[cfg(test)]
mod tests;
