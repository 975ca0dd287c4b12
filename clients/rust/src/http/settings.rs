//! The settings of the layer.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderName, Method, Response, StatusCode, header, request::Parts};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};

use crate::calls::Boxed;

const SOURCE_MAX: usize = 256;
/// The characters that are encoded in a part of a source.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// What an answer says of the request's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// There was an effect, or the answer is final: a repeat gets this answer.
    Store,
    /// There was none: the key may be used again, also with another body. Once announced, the answer is stored.
    Release,
    /// It is unknown: a repeat runs again. Once announced, the request is parked for a person.
    Fail,
}

/// 5xx fail; 400, 401, 403, 404, 409, 422 and 429 release; all others are stored.
#[must_use]
pub fn default_rule(status: StatusCode) -> Rule {
    match status.as_u16() {
        500.. => Rule::Fail,
        400 | 401 | 403 | 404 | 409 | 422 | 429 => Rule::Release,
        _ => Rule::Store,
    }
}

type PartOf = Arc<dyn Fn(&Parts) -> String + Send + Sync>;
type Reread = Arc<dyn Fn(Parts) -> Boxed<'static, Response<Bytes>> + Send + Sync>;

/// The settings of [`IdempotencyLayer`](super::IdempotencyLayer).
#[derive(Clone)]
#[must_use]
pub struct Settings {
    tenant: PartOf,
    route: PartOf,
    pub(super) methods: Vec<Method>,
    pub(super) required: bool,
    pub(super) wait: Duration,
    pub(super) rule: Arc<dyn Fn(StatusCode) -> Rule + Send + Sync>,
    pub(super) kept_headers: Vec<HeaderName>,
    pub(super) body_max: usize,
    pub(super) result_max: usize,
    pub(super) answer_max: usize,
    pub(super) reread: Option<Reread>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tenant: Arc::new(|_| String::new()),
            route: Arc::new(|parts| parts.uri.path().to_owned()),
            methods: vec![Method::POST, Method::PATCH],
            required: true,
            wait: Duration::from_secs(5),
            rule: Arc::new(default_rule),
            kept_headers: vec![header::CONTENT_TYPE, header::CONTENT_ENCODING, header::LOCATION],
            body_max: 1 << 20,
            result_max: 16_384,
            answer_max: 8 << 20,
            reread: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("methods", &self.methods)
            .field("required", &self.required)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// Whose key it is: keys of two tenants never meet. By default all requests are one tenant's.
    pub fn tenant(mut self, of: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.tenant = Arc::new(of);
        self
    }

    /// The route of a request, such as `/orders/{id}`; the path by default. Give one wherever paths have ids: each source
    /// is stored for ever. With axum it is `MatchedPath` among the extensions.
    pub fn route(mut self, of: impl Fn(&Parts) -> String + Send + Sync + 'static) -> Self {
        self.route = Arc::new(of);
        self
    }

    /// The methods whose requests need a key: by default POST and PATCH.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.methods = methods.into_iter().collect();
        self
    }

    /// Whether a request without a key is refused (the default), rather than passed on without protection.
    pub fn required(mut self, required: bool) -> Self {
        self.required = required;
        self
    }

    /// How long to wait while the first request is not done: 5 s by default, at most an hour.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait.min(LONGEST_WAIT);
        self
    }

    /// What an answer's status says of the effect: [`default_rule`] by default.
    pub fn rule(mut self, rule: impl Fn(StatusCode) -> Rule + Send + Sync + 'static) -> Self {
        self.rule = Arc::new(rule);
        self
    }

    /// The headers that are stored with an answer: by default `content-type`, `content-encoding` and `location`.
    pub fn kept_headers(mut self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        self.kept_headers = names.into_iter().collect();
        self
    }

    /// The largest body of a request, in bytes: 1 MiB by default. A larger one is answered 413.
    pub fn body_max(mut self, bytes: usize) -> Self {
        self.body_max = bytes;
        self
    }

    /// The largest answer that is stored with its body, in bytes: 16,384 by default, and at most the ledger's
    /// `result_bytes_max`.
    pub fn result_max(mut self, bytes: usize) -> Self {
        self.result_max = bytes;
        self
    }

    /// The largest answer that is held in memory, in bytes: 8 MiB by default. Of a larger one only status and headers are
    /// sent.
    pub fn answer_max(mut self, bytes: usize) -> Self {
        self.answer_max = bytes;
        self
    }

    /// Makes the answer to a repeat whose body was not stored. Without it such a repeat gets status and headers, and
    /// `Idempotency-Body: omitted`.
    pub fn reread<F, W>(mut self, reread: F) -> Self
    where
        F: Fn(Parts) -> W + Send + Sync + 'static,
        W: Future<Output = Response<Bytes>> + Send + 'static,
    {
        self.reread = Some(Arc::new(move |parts| Box::pin(reread(parts))));
        self
    }

    /// The source of a request. A hash where it would be too long: cut, it could be that of another tenant.
    pub(super) fn source(&self, parts: &Parts) -> String {
        source_of(&(self.tenant)(parts), parts.method.as_str(), &(self.route)(parts))
    }
}

pub(crate) fn source_of(tenant: &str, method: &str, route: &str) -> String {
    let encoded = [tenant, method, route].map(|part| utf8_percent_encode(part, &ENCODED).to_string());
    let source = encoded.join("/");
    if source.len() <= SOURCE_MAX {
        return source;
    }
    Sha256::digest(source).iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
