//! The responses of the observe listener. Probes are answered immediately; the text of the metrics is large, so the number of
//! concurrent scrapes is limited.

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

/// Maximum number of concurrent scrapes: each may hold two megabytes of text. At most half of the listener's permits, so that
/// clients that do not read their responses cannot block probes.
const SCRAPES_MAX: usize = 32;
/// Maximum number of concurrent scrapes of one address, or of one /64 network of IPv6: a bound on the permits that a client can
/// hold by not reading its responses.
const SCRAPES_OF_ADDRESS_MAX: usize = 8;
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub(super) struct Responder {
    ledger: Ledger,
    accepting: Accepting,
    scrapes: Arc<Semaphore>,
    scrapes_max: usize,
    by_address: Addresses,
}

/// The permit of one scrape; empty until its connection requests the metrics.
pub(super) type Scrape = OnceLock<(FromAddress, OwnedSemaphorePermit)>;

type Answer = Response<Full<Bytes>>;

impl Responder {
    /// The responder of a listener with this number of permits.
    pub(super) fn new(ledger: Ledger, accepting: Accepting, permits: usize) -> Responder {
        let scrapes_max = SCRAPES_MAX.min(permits / 2).max(1);
        let scrapes = Arc::new(Semaphore::new(scrapes_max));
        let by_address = Addresses::new(SCRAPES_OF_ADDRESS_MAX);
        Responder { ledger, accepting, scrapes, scrapes_max, by_address }
    }

    /// Answers a request from an address. `scrape` holds the permit of a scrape.
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
        // An address may hold at most as many permits as remain free, so that a few addresses together cannot take all.
        let of_address = self.by_address.connected_within(address, self.scrapes.available_permits());
        let permit = of_address.zip(Arc::clone(&self.scrapes).try_acquire_owned().ok());
        let Some(permit) = permit else {
            warn_once_a_second!(%address, "too many scrapes of observe_listen are under way: one was refused");
            let why = format!(
                "too many scrapes are under way: at most {SCRAPES_OF_ADDRESS_MAX} of one address, and {} of all; scrape \
                 again later\n",
                self.scrapes_max
            );
            let refused = text(StatusCode::SERVICE_UNAVAILABLE, TEXT, why);
            return with(refused, RETRY_AFTER, HeaderValue::from_static("1"));
        };
        drop(scrape.set(permit));
        let ledger = self.ledger.clone();
        // Renders up to two megabytes, so not on a thread that serves calls.
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
