//! Who calls, and what they may do. The edge asks the connection's door at each call; the services ask for rights, as
//! soon as they know the consumer.

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

/// Where the calls of one connection come in.
pub(crate) struct Entrance {
    door: Authenticator,
    account: Arc<ConnectionAccount>,
    http_waits: Arc<HttpWaits>,
    /// Ends the connection's streams.
    leaving: CancellationToken,
}

impl Entrance {
    pub(crate) fn new(
        door: Authenticator,
        account: Arc<ConnectionAccount>,
        http_waits: &Arc<HttpWaits>,
        leaving: CancellationToken,
    ) -> Entrance {
        account.set_proxy(door.peer_is_proxy());
        Entrance { door, account, http_waits: Arc::clone(http_waits), leaving }
    }

    pub(super) fn account(&self) -> &Arc<ConnectionAccount> {
        &self.account
    }
}

/// Who calls. The edge puts it into the extensions of each request.
#[derive(Clone)]
pub(crate) struct Caller {
    identity: Arc<Identity>,
    entrance: Arc<Entrance>,
    rpc: Option<Rpc>,
    /// The account of the call, once it is admitted.
    call: Option<Arc<CallAccount>>,
    /// What a call that may take long was known by.
    shown: Option<Arc<HeaderMap>>,
    /// When the call must be answered. It began with its headers: the rest of its request may have taken long.
    pub(crate) deadline: Instant,
    /// Whether it came by HTTP/1.1, so that it holds its connection.
    http1: bool,
    /// The trace context of its span, or else, where it is not recorded, the one that came with it; empty: none.
    pub(crate) traceparent: String,
    pub(super) trace_id: Option<TraceId>,
    pub(crate) span: CallSpan,
}

impl Caller {
    /// The caller of a request with these headers, whose call has this span.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: nobody is known by what was presented.
    pub(super) fn of(
        entrance: &Arc<Entrance>,
        rpc: Option<Rpc>,
        headers: &HeaderMap,
        span: CallSpan,
    ) -> Result<Caller, Rejection> {
        let identity = entrance.door.caller(headers);
        let identity = identity.map_err(|refused| unauthenticated(entrance, rpc, refused))?;
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| text.len() <= TRACEPARENT_MAX).map(str::to_owned);
        let traceparent = span.traceparent().or(traceparent).unwrap_or_default();
        let trace_id = TraceId::of(&traceparent);
        let takes_long = rpc.is_some_and(|rpc| rpc.streams);
        let shown = takes_long.then(|| Arc::new(headers.clone()));
        let entrance = Arc::clone(entrance);
        let (deadline, http1) = (Instant::now(), false);
        Ok(Caller {
            identity,
            entrance,
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

    /// The same caller, whose call has this account: a stream is under way for as long as its caller is kept.
    pub(super) fn admitted(self, call: &Arc<CallAccount>, deadline: Instant, http1: bool) -> Caller {
        Caller { call: Some(Arc::clone(call)), deadline, http1, ..self }
    }

    /// The same caller, whose credentials in these headers can be judged again.
    pub(crate) fn shows(&self, headers: HeaderMap) -> Caller {
        Caller { shown: Some(Arc::new(headers)), ..self.clone() }
    }

    /// The account of the call.
    ///
    /// # Errors
    /// `INTERNAL`: it has none.
    pub(crate) fn call(&self) -> Result<&Arc<CallAccount>, Rejection> {
        self.call.as_ref().ok_or_else(|| errors::internal("a call has no account"))
    }

    /// A place for a call of this connection that waits. `None` if there is none.
    pub(crate) fn wait_place(&self) -> Option<WaitPlace> {
        WaitPlace::take(&self.entrance.account, self.http1.then_some(&self.entrance.http_waits))
    }

    /// The principal. `None` if no source of identity is configured, so that all callers are the same one.
    pub(crate) fn named_principal(&self) -> Option<&str> {
        Some(self.principal()).filter(|principal| *principal != ANONYMOUS)
    }

    /// Counts one more item of a batch as a call. The first is the call itself.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`.
    pub(crate) fn item(&self, index: usize) -> Result<(), Rejection> {
        match &self.call {
            Some(call) if index > 0 => call.item(),
            Some(_) | None => Ok(()),
        }
    }

    /// Work of the call in its own task: what it decodes counts as the call's.
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
    pub(crate) async fn leaving(&self) {
        match &self.shown {
            Some(_) => self.entrance.leaving.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The caller as the credentials of the call, which may have come long ago, are judged now.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: they are not valid any more.
    pub(crate) fn again(&self) -> Result<Caller, Rejection> {
        let Some(headers) = &self.shown else { return Ok(self.clone()) };
        let identity = self.entrance.door.caller(headers);
        let identity = identity.map_err(|refused| unauthenticated(&self.entrance, self.rpc, refused))?;
        Ok(Caller { identity, ..self.clone() })
    }

    /// The authenticated identity.
    pub(crate) fn principal(&self) -> &str {
        &self.identity.principal
    }

    /// The same, by this caller.
    pub(crate) fn submits(&self, submission: Submission) -> Submission {
        Submission { trace_id: self.trace_id, ..submission }
    }

    /// Whether the caller may call the RPC for at least one consumer: asked before a byte of the request is read. Principals
    /// without a right would else hold room for requests that are all refused: four of them kept all settlements of others
    /// out.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(super) fn may_call(&self, rpc: Rpc) -> Result<(), Rejection> {
        if rpc.looks().is_some_and(|right| self.identity.may(right, Whose::Any)) {
            return Ok(());
        }
        self.has(Some(rpc.needs), Whose::Any)
    }

    /// Whether the caller may do for this consumer what the RPC does. Neither a policy nor the store is looked at before.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed(&self, consumer: &str) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::Consumer(consumer))
    }

    /// The same, where nothing is refused for it, and nothing counted.
    pub(crate) fn may(&self, consumer: &str) -> bool {
        self.rpc.is_some_and(|rpc| self.identity.may(rpc.needs, Whose::Consumer(consumer)))
    }

    /// Whether the caller may do for all consumers what the RPC does.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_everywhere(&self) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::All)
    }

    /// Whether the caller may do for these consumers what the RPC does.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_for(&self, whose: Whose<'_>) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), whose)
    }

    /// Whether the caller may do for some consumer what the RPC does: for a stream, whose messages name them.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_somewhere(&self) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::Any)
    }

    /// Whether the caller has this right: for an RPC that only looks, as it is asked this time.
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
            Whose::Consumer(consumer) => (consumer, "this consumer"),
            Whose::Prefix(prefix) => (prefix, "all consumers whose names begin with this prefix"),
            Whose::All => ("*", "all consumers (\"*\")"),
            Whose::Any => ("", "any consumer"),
        };
        warn_once_a_second!(principal, rpc, consumer, %right, "refused: the principal has not this right");
        let rejection = Rejection::new(
            Reason::ConsumerNotAllowed,
            format!(
                "{principal} has not the right `{right}` on {on}; nothing was changed: ask who keeps the rights"
            ),
        );
        // Here, where each such refusal is made: whichever RPC asks, and each item and message of its own.
        self.entrance.account.refused(&rejection);
        Err(rejection)
    }
}

fn unauthenticated(entrance: &Entrance, rpc: Option<Rpc>, refused: Refused) -> Rejection {
    let (peer, rpc) = (entrance.door.peer().address, rpc.map_or("", |rpc| rpc.name));
    warn_once_a_second!(%peer, rpc, why = %refused, "refused: the caller is not authenticated");
    let rejection = Rejection::new(Reason::Unauthenticated, format!("{refused}; nothing was changed"));
    entrance.account.refused(&rejection);
    rejection
}

/// The caller of a request that came through the edge.
///
/// # Errors
/// `INTERNAL`: it did not come through the edge, so that nobody knows who calls.
pub(crate) fn caller(extensions: &Extensions) -> Result<&Caller, Rejection> {
    extensions.get::<Caller>().ok_or_else(|| errors::internal("a request did not come through the edge"))
}
