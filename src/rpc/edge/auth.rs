//! Who calls, and what they may do. The edge asks the connection's authenticator at each call; the services
//! check the right as soon as they know the consumer.

use http::{Extensions, HeaderMap};
use std::sync::Arc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::waits::{HttpWaits, WaitPlace};
use crate::accounts::{CallAccount, ConnectionAccount, within};
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Reason, Rejection, Submission, TraceId};
use crate::identity::{ANONYMOUS, Authenticator, Identity, Refused, Right, Rpc, Whose};
use crate::traces::CallSpan;
use crate::wire::errors;

/// A W3C `traceparent` has 55 characters.
const TRACEPARENT_MAX: usize = 64;

/// The connection that a call arrives on: its authenticator, its account, its limits.
pub(crate) struct CallOrigin {
    door: Authenticator,
    account: Arc<ConnectionAccount>,
    http_waits: Arc<HttpWaits>,
    /// Ends the connection's streams.
    leaving: CancellationToken,
}

impl CallOrigin {
    pub(crate) fn new(
        door: Authenticator,
        account: Arc<ConnectionAccount>,
        http_waits: &Arc<HttpWaits>,
        leaving: CancellationToken,
    ) -> CallOrigin {
        account.set_proxy(door.peer_is_proxy());
        CallOrigin { door, account, http_waits: Arc::clone(http_waits), leaving }
    }

    pub(super) fn account(&self) -> &Arc<ConnectionAccount> {
        &self.account
    }
}

/// The authenticated caller. The edge puts it into the extensions of each request.
#[derive(Clone)]
pub(crate) struct AuthenticatedCaller {
    identity: Arc<Identity>,
    origin: Arc<CallOrigin>,
    rpc: Option<Rpc>,
    /// The account of the call, once the call is admitted.
    call: Option<Arc<CallAccount>>,
    /// The headers with the credential of a call that may take long.
    shown: Option<Arc<HeaderMap>>,
    /// When the call must be answered. The time runs from its headers on: the rest of its request may have
    /// taken long.
    pub(crate) deadline: Instant,
    /// Whether the call uses HTTP/1.1, so that it occupies its connection.
    http1: bool,
    /// The trace context of the call's span or, if that is not recorded, the one that the client sent; empty
    /// if it sent none.
    pub(crate) traceparent: String,
    pub(super) trace_id: Option<TraceId>,
    pub(crate) span: CallSpan,
}

impl AuthenticatedCaller {
    /// The caller of a request with these headers, whose call has this span.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: the presented credential is not known.
    pub(super) fn of(
        origin: &Arc<CallOrigin>,
        rpc: Option<Rpc>,
        headers: &HeaderMap,
        span: CallSpan,
    ) -> Result<AuthenticatedCaller, Rejection> {
        let identity = origin.door.caller(headers);
        let identity = identity.map_err(|refused| unauthenticated(origin, rpc, refused))?;
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| text.len() <= TRACEPARENT_MAX).map(str::to_owned);
        let traceparent = span.traceparent().or(traceparent).unwrap_or_default();
        let trace_id = TraceId::of(&traceparent);
        let takes_long = rpc.is_some_and(|rpc| rpc.streams);
        let shown = takes_long.then(|| Arc::new(headers.clone()));
        let origin = Arc::clone(origin);
        let (deadline, http1) = (Instant::now(), false);
        Ok(AuthenticatedCaller {
            identity,
            origin,
            rpc,
            call: None,
            shown,
            deadline,
            http1,
            traceparent,
            trace_id,
            span,
        })
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// The same caller with the account of its call: a stream counts as in progress for as long as its caller
    /// is kept.
    pub(super) fn admitted(
        self,
        call: &Arc<CallAccount>,
        deadline: Instant,
        http1: bool,
    ) -> AuthenticatedCaller {
        AuthenticatedCaller { call: Some(Arc::clone(call)), deadline, http1, ..self }
    }

    /// The same caller with these headers, so that its credential can be checked again.
    pub(crate) fn with_credential(&self, headers: HeaderMap) -> AuthenticatedCaller {
        AuthenticatedCaller { shown: Some(Arc::new(headers)), ..self.clone() }
    }

    /// The account of the call.
    ///
    /// # Errors
    /// `INTERNAL`: the call has no account.
    pub(crate) fn call(&self) -> Result<&Arc<CallAccount>, Rejection> {
        self.call.as_ref().ok_or_else(|| errors::internal("a call has no account"))
    }

    /// A permit for a call of this connection to wait; `None` if all are taken.
    pub(crate) fn wait_place(&self) -> Option<WaitPlace> {
        WaitPlace::take(&self.origin.account, self.http1.then_some(&self.origin.http_waits))
    }

    /// The principal; `None` if no source of identity is configured, so that all callers are the same one.
    pub(crate) fn named_principal(&self) -> Option<&str> {
        Some(self.principal()).filter(|principal| *principal != ANONYMOUS)
    }

    /// Charges one more item of a batch as a call. The first item is the call itself.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`.
    pub(crate) fn item(&self, index: usize) -> Result<(), Rejection> {
        match &self.call {
            Some(call) if index > 0 => call.item(),
            Some(_) | None => Ok(()),
        }
    }

    /// Wraps work of the call, so that it can run in a separate task: the messages that the work decodes are
    /// still charged to the call.
    pub(crate) fn counted<W>(&self, work: W) -> impl Future<Output = W::Output> + Send + 'static
    where
        W: Future<Output: Send> + Send + 'static,
    {
        let call = self.call.clone();
        async move {
            match call {
                Some(call) => within(call, work).await,
                None => work.await,
            }
        }
    }

    /// Waits until the streams of the caller's connection must end.
    pub(crate) async fn must_end_streams(&self) {
        match &self.shown {
            Some(_) => self.origin.leaving.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The caller by the credential of the call, checked again now: it may have been sent long ago.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: the credential is not valid any more.
    pub(crate) fn checked_again(&self) -> Result<AuthenticatedCaller, Rejection> {
        let Some(headers) = &self.shown else { return Ok(self.clone()) };
        let identity = self.origin.door.caller(headers);
        let identity = identity.map_err(|refused| unauthenticated(&self.origin, self.rpc, refused))?;
        Ok(AuthenticatedCaller { identity, ..self.clone() })
    }

    /// The authenticated identity.
    pub(crate) fn principal(&self) -> &str {
        &self.identity.principal
    }

    /// The submission with this caller's principal.
    pub(crate) fn as_principal(&self, submission: Submission) -> Submission {
        Submission { trace_id: self.trace_id, ..submission }
    }

    /// Whether the caller may call the RPC for at least one consumer: checked before a byte of the request is
    /// read. Otherwise principals without a right would occupy memory with requests that are all refused:
    /// four of them kept out all settlements of other principals.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(super) fn may_call(&self, rpc: Rpc) -> Result<(), Rejection> {
        if rpc.looks().is_some_and(|right| self.identity.may(right, Whose::Any)) {
            return Ok(());
        }
        self.has(Some(rpc.needs), Whose::Any)
    }

    /// Whether the caller has the RPC's right for this consumer. Checked before a policy or the store is
    /// read.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed(&self, consumer: &str) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::Consumer(consumer))
    }

    /// Whether the caller has the RPC's right for this consumer: without a refusal, and without counting one.
    pub(crate) fn may(&self, consumer: &str) -> bool {
        self.rpc.is_some_and(|rpc| self.identity.may(rpc.needs, Whose::Consumer(consumer)))
    }

    /// Whether the caller has the RPC's right for all consumers.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_everywhere(&self) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::All)
    }

    /// Whether the caller has the RPC's right for these consumers.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_for(&self, whose: Whose<'_>) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), whose)
    }

    /// Whether the caller has the RPC's right for at least one consumer: for a stream, whose messages name
    /// the consumers.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_somewhere(&self) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::Any)
    }

    /// Whether the caller has this right: for an RPC whose request only reads this time.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn has_right(&self, right: Right, whose: Whose<'_>) -> Result<(), Rejection> {
        self.has(Some(right), whose)
    }

    fn has(&self, right: Option<Right>, whose: Whose<'_>) -> Result<(), Rejection> {
        let principal = self.principal();
        let Some(right) = right else {
            return Err(errors::internal("an RPC stands in no row of the table of rights"));
        };
        if self.identity.may(right, whose) {
            return Ok(());
        }
        let rpc = self.rpc.map_or("", |rpc| rpc.name);
        let (consumer, on) = match whose {
            Whose::Consumer(consumer) => (consumer, format!("the consumer {consumer:?}")),
            Whose::Prefix(prefix) => (prefix, format!("all consumers whose names begin with {prefix:?}")),
            Whose::All => ("*", "all consumers (\"*\")".to_owned()),
            Whose::Any => ("", "any consumer".to_owned()),
        };
        warn_once_a_second!(principal, rpc, consumer, %right, "refused: the principal has not this right");
        let rejection = Rejection::new(
            Reason::ConsumerNotAllowed,
            format!(
                "{principal} has not the right `{right}` on {on}; nothing was changed: ask who keeps the rights"
            ),
        );
        // Counted here, where every refusal for a missing right is made: of each RPC, each item and each message.
        self.origin.account.refused(&rejection);
        Err(rejection)
    }
}

fn unauthenticated(origin: &CallOrigin, rpc: Option<Rpc>, refused: Refused) -> Rejection {
    let (peer, rpc) = (origin.door.peer().address, rpc.map_or("", |rpc| rpc.name));
    warn_once_a_second!(%peer, rpc, why = %refused, "refused: the caller is not authenticated");
    let rejection = Rejection::new(Reason::Unauthenticated, format!("{refused}; nothing was changed"));
    origin.account.refused(&rejection);
    rejection
}

/// The caller of a request that passed the edge.
///
/// # Errors
/// `INTERNAL`: the request did not pass the edge, so the caller is unknown.
pub(crate) fn caller(extensions: &Extensions) -> Result<&AuthenticatedCaller, Rejection> {
    extensions
        .get::<AuthenticatedCaller>()
        .ok_or_else(|| errors::internal("a request did not come through the edge"))
}
