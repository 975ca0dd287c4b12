//! The calls of a server, under the names that dashboards for gRPC expect.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use prometheus::{Error, Histogram, IntCounter, IntCounterVec, IntGauge, Registry};

use super::catalogue::{CONNECTIONS, HANDLED, HANDLING, STARTED};

/// The statuses by number, named as in the Go library, whose names the dashboards use.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const CANCELED: usize = 1;
const UNKNOWN: usize = 2;

/// A method of the server.
pub(crate) struct Method {
    pub(crate) service: String,
    pub(crate) name: String,
    /// `unary`, `client_stream`, `server_stream` or `bidi_stream`.
    pub(crate) kind: &'static str,
}

/// The counts of calls: cheap to clone.
#[derive(Clone)]
pub(crate) struct CallMetrics(Arc<All>);

struct All {
    /// The index in `counts` of a path, `/SERVICE/METHOD`.
    places: HashMap<String, usize>,
    /// The last item counts paths that the server does not have.
    counts: Vec<Counts>,
    connections: IntGauge,
    /// Whether metrics are exposed.
    counts_calls: bool,
}

struct Counts {
    labels: [String; 3],
    /// `SERVICE/METHOD`; `None` for the paths that the server does not have.
    path: Option<String>,
    started: IntCounter,
    handling: Histogram,
    /// By the number of the status; each is made with its first call.
    handled: [OnceLock<Option<IntCounter>>; CODES.len()],
    all_handled: IntCounterVec,
}

impl CallMetrics {
    pub(super) fn new(
        registry: &Registry,
        methods: impl IntoIterator<Item = Method>,
        counts_calls: bool,
    ) -> Result<CallMetrics, Error> {
        let (started, handled) = (STARTED.counters(registry)?, HANDLED.counters(registry)?);
        let handling = HANDLING.histograms(registry)?;
        let made = |kind: &str, service: &str, method: &str, path| -> Result<Counts, Error> {
            let counts = Counts {
                labels: [kind.to_owned(), service.to_owned(), method.to_owned()],
                path,
                started: started.get_metric_with_label_values(&[kind, service, method])?,
                handling: handling.get_metric_with_label_values(&[kind, service, method])?,
                handled: [const { OnceLock::new() }; CODES.len()],
                all_handled: handled.clone(),
            };
            // A failure rate needs the calls that did not fail.
            counts.handled(0);
            Ok(counts)
        };
        let (mut places, mut counts) = (HashMap::new(), Vec::new());
        for Method { service, name, kind } in methods {
            places.insert(format!("/{service}/{name}"), counts.len());
            counts.push(made(kind, &service, &name, Some(format!("{service}/{name}")))?);
        }
        counts.push(made("unary", "unknown", "unknown", None)?);
        let connections = CONNECTIONS.gauge(registry)?;
        Ok(CallMetrics(Arc::new(All { places, counts, connections, counts_calls })))
    }

    /// Counts a connection as open until the result is dropped.
    pub(crate) fn connected(&self) -> Connected {
        self.0.connections.inc();
        Connected { calls: self.clone(), last: AtomicUsize::new(0) }
    }
}

/// An open connection. Its calls share it, so that no other core updates its reference count.
pub(crate) struct Connected {
    calls: CallMetrics,
    /// The index of its last call's counts: most calls of a connection are of one method.
    last: AtomicUsize,
}

impl Connected {
    /// Counts the start of a call.
    pub(crate) fn begin(self: &Arc<Connected>, path: &str) -> CountedCall {
        let all = &self.calls.0;
        let last = self.last.load(Ordering::Relaxed);
        let is_last = all.counts.get(last).and_then(|counts| counts.path.as_deref());
        let place = if is_last.is_some_and(|last| path.strip_prefix('/') == Some(last)) {
            last
        } else {
            all.places.get(path).copied().unwrap_or(all.counts.len() - 1)
        };
        if place != last {
            self.last.store(place, Ordering::Relaxed);
        }
        let call = CountedCall { connection: Arc::clone(self), place, began: Instant::now(), ended: false };
        if let Some(counts) = call.counts().filter(|_| all.counts_calls) {
            counts.started.inc();
        }
        call
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.calls.0.connections.dec();
    }
}

impl Counts {
    fn handled(&self, code: usize) -> Option<&IntCounter> {
        let [kind, service, method] = &self.labels;
        let made = || {
            let labels = [kind, service, method, CODES.get(code).copied().unwrap_or("Unknown")];
            self.all_handled.get_metric_with_label_values(&labels).ok()
        };
        self.handled.get(code)?.get_or_init(made).as_ref()
    }
}

/// A call in progress. If it is dropped before its answer, its client canceled it.
pub(crate) struct CountedCall {
    connection: Arc<Connected>,
    place: usize,
    began: Instant,
    ended: bool,
}

impl CountedCall {
    /// Counts the end of a call: the headers of its answer are ready, with this status, after this time.
    pub(crate) fn end(&mut self, status: tonic::Code, took: Duration) {
        let code = usize::try_from(i32::from(status)).ok().filter(|code| *code < CODES.len());
        self.count(code.unwrap_or(UNKNOWN), took);
    }

    /// How long the call has taken so far.
    pub(crate) fn took(&self) -> Duration {
        self.began.elapsed()
    }

    /// The name of the call's method.
    pub(crate) fn method(&self) -> &str {
        self.counts().map_or("unknown", |Counts { labels: [_, _, method], .. }| method)
    }

    /// `SERVICE/METHOD`; `None` if the server does not have the method.
    pub(crate) fn path(&self) -> Option<&str> {
        self.counts().and_then(|counts| counts.path.as_deref())
    }

    fn counts(&self) -> Option<&Counts> {
        self.connection.calls.0.counts.get(self.place)
    }

    fn count(&mut self, code: usize, took: Duration) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let counts = self.counts().filter(|_| self.connection.calls.0.counts_calls);
        let Some(counts) = counts else { return };
        counts.handling.observe(took.as_secs_f64());
        if let Some(count) = counts.handled(code) {
            count.inc();
        }
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        self.count(CANCELED, self.took());
    }
}
