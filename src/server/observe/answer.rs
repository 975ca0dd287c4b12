//! What the plain HTTP port answers. Probes are answered immediately; the text of the metrics is large, so few are written
//! at a time.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::accepting::Accepting;
use crate::common::log_limit::warn_once_a_second;
use crate::ledger::Ledger;
use crate::rpc::{Addresses, FromAddress};

/// Maximum number of scrapes under way: each may hold two megabytes of text. At most half of the port's places, so that
/// clients that do not read their answers keep no probe out.
const SCRAPES_MAX: usize = 32;
/// Maximum number of scrapes of one address, or of one /64 network of IPv6. Clients that do not read their answers hold
/// no more of the others' places than these.
const SCRAPES_OF_ADDRESS_MAX: usize = 8;
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Answers {
    ledger: Ledger,
    accepting: Accepting,
    scrapes: Arc<Semaphore>,
    scrapes_max: usize,
    by_address: Addresses,
}

/// The place of one scrape; empty while its connection has not asked for the metrics.
pub(super) type Scrape = OnceLock<(FromAddress, OwnedSemaphorePermit)>;

type Answer = Response<Full<Bytes>>;

impl Answers {
    /// Of a port with this many places.
    pub(super) fn new(ledger: Ledger, accepting: Accepting, places: usize) -> Answers {
        let scrapes_max = SCRAPES_MAX.min(places / 2).max(1);
        let scrapes = Arc::new(Semaphore::new(scrapes_max));
        let by_address = Addresses::new(SCRAPES_OF_ADDRESS_MAX);
        Answers { ledger, accepting, scrapes, scrapes_max, by_address }
    }

    /// Answers a request from an address. `scrape` keeps the place that a scrape has.
    pub(super) async fn answer(
        &self,
        address: IpAddr,
        request: Request<Incoming>,
        scrape: Arc<Scrape>,
    ) -> Result<Answer, Infallible> {
        let (method, path) = (request.method(), request.uri().path());
        Ok(match path {
            "/metrics" | "/livez" | "/readyz" if method != Method::GET && method != Method::HEAD => {
                let allowed = HeaderValue::from_static("GET, HEAD");
                with(text(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n"), ALLOW, allowed)
            }
            "/metrics" => self.metrics(address, &scrape).await,
            "/livez" => text(StatusCode::OK, TEXT, "live\n"),
            "/readyz" if self.accepting.is() => text(StatusCode::OK, TEXT, "ready\n"),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, TEXT, "draining\n"),
            _ => text(StatusCode::NOT_FOUND, TEXT, "here are /metrics, /livez and /readyz\n"),
        })
    }

    async fn metrics(&self, address: IpAddr, scrape: &Scrape) -> Answer {
        // An address keeps no more places than it leaves, so that some addresses together never have all.
        let of_address = self.by_address.connected_within(address, self.scrapes.available_permits());
        let place = of_address.zip(Arc::clone(&self.scrapes).try_acquire_owned().ok());
        let Some(place) = place else {
            warn_once_a_second!(%address, "too many scrapes of observe_listen are under way: one was refused");
            let why = format!(
                "too many scrapes are under way: at most {SCRAPES_OF_ADDRESS_MAX} of one address, and {} of all; scrape \
                 again later\n",
                self.scrapes_max
            );
            let refused = text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why);
            return with(refused, RETRY_AFTER, HeaderValue::from_static("1"));
        };
        drop(scrape.set(place));
        let ledger = self.ledger.clone();
        // Up to two megabytes are written: not by a thread that serves claims.
        match tokio::task::spawn_blocking(move || ledger.metrics().text()).await {
            Ok(Ok(metrics)) => text(StatusCode::OK, METRICS, metrics),
            Ok(Err(error)) => {
                tracing::error!(%error, "a bug of the server: the metrics cannot be written");
                text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the metrics cannot be written: see the log\n")
            }
            Err(_) => text(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "see the log\n"),
        }
    }
}

fn text(status: StatusCode, kind: HeaderValue, text: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    with(answer, CONTENT_TYPE, kind)
}

fn with(mut answer: Answer, name: HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}
