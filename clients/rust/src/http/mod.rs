//! Requests with an `Idempotency-Key`, as a layer of tower: a repeated request gets the first answer, with
//! `Idempotency-Replayed: true`.
//!
//! ```no_run
//! # use idempotency_ledger_client::{Ledger, http::{IdempotencyLayer, Settings}};
//! # fn layer() -> Result<IdempotencyLayer, Box<dyn std::error::Error>> {
//! let settings = Settings::default()
//!     .tenant(|request| request.headers["x-tenant"].to_str().unwrap_or_default().to_owned())
//!     .route(|_| "/orders/{id}".to_owned());
//! let layer = IdempotencyLayer::new(Ledger::new("orders-api")?, settings); // Router::layer of axum takes it
//! # Ok(layer)
//! # }
//! ```

pub(crate) mod rules;
pub(crate) mod settings;

use std::{
    any::Any,
    error::Error as StdError,
    future::Future,
    panic::resume_unwind,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use tower::{Layer, Service};

pub use settings::{Rule, Settings, default_rule};

use crate::{Claim, EffectResult, Error, Key, Ledger, Outcome, Steer, error::short_name, ledger::caught};

type Problem = Box<dyn StdError + Send + Sync>;
/// The body of an answer: the application's own where its request was passed on, else one that is in memory.
pub type AnswerBody<A> = Either<A, Full<Bytes>>;

/// Lets an application process each request with an `Idempotency-Key` once.
///
/// The consumer of the ledger is the name of the API. The application finds its [`Claim`] among the extensions of the
/// request. A client that goes away does not cancel a request that is processed; the loss of the claim does. The answer is
/// held in memory until it is settled: leave streams out by [`Settings::methods`], or mount them without the layer.
#[derive(Clone, Debug)]
pub struct IdempotencyLayer {
    ledger: Ledger,
    settings: Arc<Settings>,
}

impl IdempotencyLayer {
    /// The layer over this client. Close the client when the server has ended.
    #[must_use]
    pub fn new(ledger: Ledger, settings: Settings) -> Self {
        Self { ledger, settings: Arc::new(settings) }
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = Idempotency<S>;

    fn layer(&self, inner: S) -> Idempotency<S> {
        Idempotency { inner, ledger: self.ledger.clone(), settings: Arc::clone(&self.settings) }
    }
}

/// The service of [`IdempotencyLayer`].
#[derive(Clone, Debug)]
pub struct Idempotency<S> {
    inner: S,
    ledger: Ledger,
    settings: Arc<Settings>,
}

impl<S, B, A> Service<Request<B>> for Idempotency<S>
where
    S: Service<Request<B>, Response = Response<A>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<Problem>,
    A: Body<Data = Bytes> + Send + 'static,
    A::Error: Into<Problem>,
{
    type Response = Response<AnswerBody<A>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled until it was ready is taken; its clone is polled before the next request.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        let exchange = Exchange { ledger: self.ledger.clone(), settings: Arc::clone(&self.settings) };
        Box::pin(exchange.answered(inner, request))
    }
}

/// What the application has done with a request.
enum Done<E> {
    Answered(Response<Bytes>),
    /// An error, which its server gets after the claim is settled.
    Failed(E),
    Panicked(Box<dyn Any + Send>),
}

/// One request under way.
struct Exchange {
    ledger: Ledger,
    settings: Arc<Settings>,
}

impl Exchange {
    async fn answered<S, B, A>(
        self,
        mut inner: S,
        request: Request<B>,
    ) -> Result<Response<AnswerBody<A>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<A>> + Send + 'static,
        S::Future: Send,
        S::Error: Send + 'static,
        B: Body + From<Bytes> + Send + 'static,
        B::Data: Send,
        B::Error: Into<Problem>,
        A: Body<Data = Bytes> + Send + 'static,
        A::Error: Into<Problem>,
    {
        let whole =
            |answer: Response<Bytes>| Ok(rules::sent(answer).map(|body| Either::Right(Full::new(body))));
        let (parts, body) = request.into_parts();
        let sent: Vec<_> = parts.headers.get_all("idempotency-key").iter().collect();
        if !self.settings.methods.contains(&parts.method) || (sent.is_empty() && !self.settings.required) {
            return Ok(inner.call(Request::from_parts(parts, body)).await?.map(Either::Left));
        }
        let Some(key) = rules::key_of(&sent) else {
            return whole(if sent.is_empty() { rules::missing() } else { rules::malformed() });
        };
        let body = match Limited::new(body, self.settings.body_max).collect().await {
            Ok(read) => read.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return whole(rules::problem(
                    413,
                    &format!("a body may have {} bytes", self.settings.body_max),
                    None,
                ));
            }
            Err(_) => return whole(rules::problem(400, "the body of the request could not be read", None)),
        };
        let done = Arc::new(Mutex::new(None));
        let kept = parts.clone();
        let outcome = self.processed(&key, parts, body, inner, Arc::clone(&done)).await;
        let done = done.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (done, outcome) {
            // What the application has answered is sent whatever became of its claim: the effect happened.
            (Some(Done::Answered(answer)), _) => whole(answer),
            (Some(Done::Failed(error)), _) => Err(error),
            (Some(Done::Panicked(panic)), _) => resume_unwind(panic),
            (None, Err(Error::Closed)) => whole(rules::closing()),
            (None, Err(Error::InvalidField(fault))) => whole(rules::problem(500, &fault.to_string(), None)),
            (None, Ok(outcome)) => whole(self.without(&outcome, kept).await),
        }
    }

    /// The answer where the application did not answer: to a repeat, or a refusal.
    async fn without(&self, outcome: &Outcome, parts: Parts) -> Response<Bytes> {
        if !outcome.replayed {
            return rules::refused(outcome);
        }
        let (answer, omitted) = rules::replayed(outcome);
        match self.settings.reread.as_ref().filter(|_| omitted) {
            Some(reread) => rules::marked(reread(parts).await),
            None => answer,
        }
    }

    async fn processed<S, B, A>(
        &self,
        key: &str,
        mut parts: Parts,
        body: Bytes,
        mut inner: S,
        done: Arc<Mutex<Option<Done<S::Error>>>>,
    ) -> Result<Outcome, Error>
    where
        S: Service<Request<B>, Response = Response<A>> + Send + 'static,
        S::Future: Send,
        S::Error: Send + 'static,
        B: From<Bytes> + Send + 'static,
        A: Body<Data = Bytes> + Send + 'static,
        A::Error: Into<Problem>,
    {
        let settings = Arc::clone(&self.settings);
        let source = settings.source(&parts);
        let delivery = Key::of(source, key).body(&body).wait(settings.wait);
        let handler = async move |claim: Claim| {
            parts.extensions.insert(claim.clone());
            let request = Request::from_parts(parts, B::from(body));
            let answered = caught(async {
                let answer = inner.call(request).await.map_err(Ok)?;
                collected(answer, settings.answer_max).await.map_err(Err)
            });
            let (ended, settled) = match answered.await {
                Ok(Ok((answer, whole))) => {
                    let settled = rules::settled(&settings, &answer, whole, claim.announced());
                    (Done::Answered(answer), settled)
                }
                Ok(Err(Ok(error))) => {
                    (Done::Failed(error), Err(rules::failure(short_name::<S::Error>(), claim.announced())))
                }
                Ok(Err(Err(broken))) => {
                    let settled = Err(rules::failure("BrokenAnswer".to_owned(), claim.announced()));
                    (Done::Answered(broken), settled)
                }
                Err(panic) => {
                    (Done::Panicked(panic), Err(rules::failure("panic".to_owned(), claim.announced())))
                }
            };
            *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
            settled as Result<EffectResult, Steer>
        };
        self.ledger.process(delivery, handler).await
    }
}

/// The answer with its body in memory, and whether the body is whole. An error: the answer where it broke off.
async fn collected<A>(answer: Response<A>, most: usize) -> Result<(Response<Bytes>, bool), Response<Bytes>>
where
    A: Body<Data = Bytes>,
    A::Error: Into<Problem>,
{
    let (mut parts, body) = answer.into_parts();
    match Limited::new(body, most).collect().await {
        Ok(read) => Ok((Response::from_parts(parts, read.to_bytes()), true)),
        Err(error) if error.is::<LengthLimitError>() => {
            parts.headers.remove(header::CONTENT_LENGTH);
            parts.headers.insert("idempotency-body", header::HeaderValue::from_static("omitted"));
            Ok((Response::from_parts(parts, Bytes::new()), false))
        }
        Err(_) => Err(rules::problem(500, "the application's answer broke off", None)),
    }
}
