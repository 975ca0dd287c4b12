//! The plain HTTP port: `/metrics` for Prometheus, `/livez` and `/readyz` for probes without gRPC. It never waits
//! for the store, and half requests take no place that a probe needs.

mod accepting;
mod answer;
mod head;
mod places;

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
use self::answer::Answers;
use self::head::{HEAD_BYTES_MAX, Head, head};
use self::places::{Leave, Place, Places};
use super::config::LocalListen;
use super::failure::Failure;
use crate::common::log_limit::warn_once_a_second;
use crate::ledger::Ledger;
use crate::metrics::Closed;

/// How long a client may take to read its answer. A slow reader of `/metrics` has one of few places.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How many connections wait in the operating system's queue to be accepted, as far as the system lets them. A connection
/// beyond is opened a second later, when its client tries again: too late for a probe.
const BACKLOG: u32 = 4_096;
/// How long to wait after the operating system had no connection to give: without that the loop would spin.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// A port, as its setting has it. The default gives way where its port is taken: two servers on one machine need no
/// setting for it. `without` says what is missing then.
///
/// # Errors
/// The chosen address cannot be had.
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
    // A server that starts again must not wait for the connections of the one before.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until it is dropped, at most `connections_max` connections concurrently.
pub(super) async fn serve(
    listener: TcpListener,
    connections_max: usize,
    ledger: Ledger,
    accepting: Accepting,
) {
    let places = Places::new(connections_max);
    let answers = Answers::new(ledger.clone(), accepting, connections_max);
    loop {
        let (stream, address) = match listener.accept().await {
            Ok((stream, from)) => (stream, from.ip()),
            Err(error) => {
                warn_once_a_second!(%error, "a connection to observe_listen was not accepted");
                sleep(AFTER_ERROR).await;
                continue;
            }
        };
        match places.enter(address).await {
            Some((place, leave)) => {
                tokio::spawn(connection(stream, address, (place, leave), answers.clone(), ledger.clone()));
            }
            None => closed(&ledger, address),
        }
    }
}

/// A connection ended because the places of the port do not suffice.
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
    (place, leave): (Place, Leave),
    answers: Answers,
    ledger: Ledger,
) {
    let (read, _place) = match head(&mut stream, place, leave).await {
        (Head::Whole(read), place) => (read, place),
        (Head::Evicted, _) => return closed(&ledger, address),
        (Head::Never, _) => {
            return tracing::debug!(%address, "a connection to observe_listen sent no request");
        }
    };
    // Holds the place of a scrape until its answer is written.
    let scrape = Arc::default();
    let service = service_fn(|request| answers.answer(address, request, Arc::clone(&scrape)));
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
