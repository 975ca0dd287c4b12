//! The plain HTTP port: `/metrics` for Prometheus, `/livez` and `/readyz` for who cannot speak gRPC. It never waits
//! for the store.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::config::{Config, ObserveListen};
use super::failure::Failure;
use crate::ledger::Ledger;

/// How many connections may be open at once; more wait in the operating system's own queue.
const CONNECTIONS_MAX: usize = 32;
/// Within which time a client must have sent the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// How long one connection may be there, for its one request: who does not read keeps nobody else out.
const CONNECTION_MAX: Duration = Duration::from_secs(10);
/// How many bytes the head of a request may have.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
/// How long to wait after the operating system had no connection to give: without that the loop would spin.
const AFTER_ERROR: Duration = Duration::from_millis(100);
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Whether the server has started and does not drain, whatever its store does.
#[derive(Clone, Debug)]
pub(super) struct Accepting(Arc<AtomicBool>);

impl Accepting {
    pub(super) fn new() -> Accepting {
        Accepting(Arc::new(AtomicBool::new(true)))
    }

    /// The server drains.
    pub(super) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    fn is(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The port, as the settings have it. The default gives way where its port is taken: two servers on one machine need
/// not be told of it.
///
/// # Errors
/// The chosen address cannot be had.
pub(super) async fn bound(config: &Config) -> Result<Option<TcpListener>, Failure> {
    let ObserveListen::At { address, by_default } = config.observe_listen else { return Ok(None) };
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if by_default && error.kind() == ErrorKind::AddrInUse => {
            tracing::warn!(%address, %error, "no metrics are served: choose another address with --observe-listen");
            Ok(None)
        }
        Err(error) => Err(Failure::Wrong(format!(
            "observe_listen: {address}: {error}; choose another with --observe-listen, or off"
        ))),
    }
}

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, ledger: Ledger, accepting: Accepting) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to observe_listen was not accepted");
                sleep(AFTER_ERROR).await;
                continue;
            }
        };
        let (ledger, accepting) = (ledger.clone(), accepting.clone());
        tokio::spawn(async move {
            connection(stream, ledger, accepting).await;
            drop(place);
        });
    }
}

async fn connection(stream: TcpStream, ledger: Ledger, accepting: Accepting) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let (ledger, accepting) = (ledger.clone(), accepting.clone());
        // Up to two megabytes are written: not by a thread that serves claims.
        let answer = tokio::task::spawn_blocking(move || answer(&method, &path, &ledger, &accepting));
        async move { Ok::<_, Infallible>(answer.await.unwrap_or_else(|_| failed())) }
    });
    let mut http1 = http1::Builder::new();
    http1
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX);
    let serving = http1.serve_connection(TokioIo::new(stream), service);
    match timeout(CONNECTION_MAX, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to observe_listen failed"),
        Err(_) => tracing::debug!(after = ?CONNECTION_MAX, "a connection to observe_listen is closed"),
    }
}

/// It died of a bug.
fn failed() -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from_static(b"see the log\n")));
    *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    answer
}

fn answer(method: &Method, path: &str, ledger: &Ledger, accepting: &Accepting) -> Response<Full<Bytes>> {
    let (status, kind, text) = match path {
        "/metrics" | "/livez" | "/readyz" if method != Method::GET && method != Method::HEAD => {
            (StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned())
        }
        "/metrics" => match ledger.metrics().text() {
            Ok(text) => (StatusCode::OK, METRICS, text),
            Err(error) => {
                tracing::error!(%error, "a bug of the server: the metrics cannot be written");
                (
                    StatusCode::INTERNAL_SERVER_ERROR,
                    TEXT,
                    "the metrics cannot be written: see the log\n".into(),
                )
            }
        },
        "/livez" => (StatusCode::OK, TEXT, "live\n".to_owned()),
        "/readyz" if accepting.is() => (StatusCode::OK, TEXT, "ready\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, TEXT, "here are /metrics, /livez and /readyz\n".to_owned()),
    };
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    answer
}
