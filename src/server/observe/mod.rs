//! The observe listener (plain HTTP): `/metrics` for Prometheus, `/livez` and `/readyz` for probes without gRPC. It never waits
//! for the store, and incomplete requests (slowloris) cannot block probes.

mod accepting;
mod answer;
mod head;
mod permits;

use std::io::{self, Cursor, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, join};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

pub(super) use self::accepting::Accepting;
use self::answer::Responder;
use self::head::{HEAD_BYTES_MAX, Head, head};
use self::permits::{Eviction, Permit, Permits};
use super::config::LocalListen;
use super::failure::Failure;
use crate::common::log_limit::warn_once_a_second;
use crate::ledger::Ledger;
use crate::metrics::Closed;

/// Bound on the time of a request, its response included: a slow reader of `/metrics` holds one of few permits.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The `listen` backlog, which the system may lower. A connection beyond it is opened a second later, when its client retries:
/// too late for a probe.
const BACKLOG: u32 = 4_096;
/// Pause after an error of `accept`: without it the loop would spin.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// Binds a listener by its setting. If the port of the default is in use, the server runs without the listener: two servers on
/// one machine need no setting for it. `without` describes what is missing then.
///
/// # Errors
/// A configured address cannot be bound.
pub(super) fn bound_locally<const PORT: u16>(
    setting: &str,
    listen: LocalListen<PORT>,
    without: &str,
) -> Result<Option<TcpListener>, Failure> {
    let LocalListen::At { address, by_default } = listen else { return Ok(None) };
    let flag = setting.replace('_', "-");
    match listening(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if by_default && error.kind() == ErrorKind::AddrInUse => {
            tracing::warn!(%address, %error, "{without}: choose another address with --{flag}");
            Ok(None)
        }
        Err(error) => Err(Failure::Wrong(format!(
            "{setting}: {address}: {error}; choose another with --{flag}, or off"
        ))),
    }
}

fn listening(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted server must not wait for connections of the previous process (TIME_WAIT).
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until dropped, at most `connections_max` connections concurrently.
pub(super) async fn serve(
    listener: TcpListener,
    connections_max: usize,
    ledger: Ledger,
    accepting: Accepting,
) {
    let permits = Permits::new(connections_max);
    let responder = Responder::new(ledger.clone(), accepting, connections_max);
    loop {
        let (stream, address) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                warn_once_a_second!(%error, "a connection to observe_listen was not accepted");
                sleep(AFTER_ERROR).await;
                continue;
            }
        };
        match permits.enter(address).await {
            Some((permit, eviction)) => {
                tokio::spawn(connection(
                    stream,
                    address,
                    (permit, eviction),
                    responder.clone(),
                    ledger.clone(),
                ));
            }
            None => closed(&ledger, address),
        }
    }
}

/// Reports a connection that was closed because all permits are taken.
fn closed(ledger: &Ledger, address: IpAddr) {
    ledger.metrics().closed(Closed::Observe);
    warn_once_a_second!(
        %address,
        "all places of observe_listen are taken: a connection without a whole request was closed"
    );
}

async fn connection(
    mut stream: TcpStream,
    address: IpAddr,
    (permit, eviction): (Permit, Eviction),
    responder: Responder,
    ledger: Ledger,
) {
    let (read, _permit) = match head(&mut stream, permit, eviction).await {
        (Head::Whole(read), permit) => (read, permit),
        (Head::Evicted, _) => return closed(&ledger, address),
        (Head::Never, _) => {
            return tracing::debug!(%address, "a connection to observe_listen sent no request");
        }
    };
    // Holds the permit of a scrape until its response is written.
    let scrape = Arc::default();
    let service = service_fn(|request| responder.answer(address, request, Arc::clone(&scrape)));
    let (reader, writer) = stream.into_split();
    let wire = TokioIo::new(join(Cursor::new(read).chain(reader), writer));
    let mut http1 = http1::Builder::new();
    http1
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(ANSWER_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX);
    match timeout(ANSWER_WITHIN, http1.serve_connection(wire, service)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to observe_listen failed"),
        Err(_) => tracing::debug!(after = ?ANSWER_WITHIN, "a connection to observe_listen is closed"),
    }
}
