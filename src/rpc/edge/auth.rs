//! Who calls, and what they may do. The edge asks the connection's door at each call; the services ask for rights, as
//! soon as they know the consumer.

use std::sync::Arc;

use http::{Extensions, HeaderMap};
use tokio_util::sync::CancellationToken;

use super::budget::{Budget, Call};
use super::principals::{Admitted, OfConnection};
use crate::domain::{Reason, Rejection, Submission, TraceId};
use crate::identity::{Door, Identity, Refused, Right, Rpc, Whose};
use crate::once_a_second::warn_once_a_second;
use crate::rpc::wire::errors;
use crate::traces::CallSpan;

/// A W3C `traceparent` has 55 characters.
const TRACEPARENT_MAX: usize = 64;

/// Where the calls of one connection come in.
pub(crate) struct Entrance {
    door: Door,
    principals: OfConnection,
    /// Ends the connection's streams.
    leaving: CancellationToken,
}

impl Entrance {
    pub(crate) fn new(door: Door, principals: OfConnection, leaving: CancellationToken) -> Entrance {
        Entrance { door, principals, leaving }
    }

    /// Lets a call pass; none: nothing is limited.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`: it is too much for its principal.
    pub(super) fn admit(&self, caller: &Caller) -> Result<Option<Admitted>, Rejection> {
        self.principals.admit(&caller.identity, caller.rpc)
    }
}

/// Who calls. The edge puts it into the extensions of each request.
#[derive(Clone)]
pub(crate) struct Caller {
    identity: Arc<Identity>,
    /// Counts what is refused to the caller.
    budget: Budget,
    rpc: Option<Rpc>,
    /// The call itself, where its principal is limited.
    limited: Option<Arc<Call>>,
    /// What a call that may take long was known by.
    shown: Option<Arc<Shown>>,
    /// The trace context of its span, or else, where it is not recorded, the one that came with it; empty: none.
    pub(crate) traceparent: String,
    pub(super) trace_id: Option<TraceId>,
    pub(crate) span: CallSpan,
}

/// What is judged again while a call goes on.
struct Shown {
    entrance: Arc<Entrance>,
    headers: HeaderMap,
}

impl Caller {
    /// The caller of a request with these headers to this path, whose call has this span.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: nobody is known by what was presented.
    pub(super) fn of(
        entrance: &Arc<Entrance>,
        budget: &Budget,
        path: &str,
        headers: &HeaderMap,
        span: CallSpan,
    ) -> Result<Caller, Rejection> {
        let rpc = path.rsplit('/').next().and_then(Rpc::of);
        let door = &entrance.door;
        let identity = door.caller(headers).map_err(|refused| unauthenticated(door, budget, rpc, refused))?;
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| text.len() <= TRACEPARENT_MAX).map(str::to_owned);
        let traceparent = span.traceparent().or(traceparent).unwrap_or_default();
        let trace_id = TraceId::of(&traceparent);
        let takes_long = rpc.is_some_and(|rpc| rpc.streams);
        let shown =
            takes_long.then(|| Arc::new(Shown { entrance: Arc::clone(entrance), headers: headers.clone() }));
        let budget = budget.clone();
        Ok(Caller { identity, budget, rpc, limited: None, shown, traceparent, trace_id, span })
    }

    /// The same caller, whose principal is limited in this call: a stream counts for as long as its caller is kept.
    pub(super) fn limited_in(self, call: &Arc<Call>) -> Caller {
        Caller { limited: call.is_limited().then(|| Arc::clone(call)), ..self }
    }

    /// Counts one more item of a batch as a call. The first is the call itself.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`.
    pub(crate) fn item(&self, index: usize) -> Result<(), Rejection> {
        match &self.limited {
            Some(call) if index > 0 => call.item().inspect_err(|refused| self.budget.refused(refused)),
            Some(_) | None => Ok(()),
        }
    }

    /// Waits until the streams of the caller's connection must end.
    pub(crate) async fn leaving(&self) {
        match &self.shown {
            Some(shown) => shown.entrance.leaving.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The caller as the credentials of the call, which may have come long ago, are judged now.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`: they are not valid any more.
    pub(crate) fn again(&self) -> Result<Caller, Rejection> {
        let Some(shown) = &self.shown else { return Ok(self.clone()) };
        let door = &shown.entrance.door;
        let identity = door.caller(&shown.headers);
        let identity = identity.map_err(|refused| unauthenticated(door, &self.budget, self.rpc, refused))?;
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

    /// Whether the caller may do for this consumer what the RPC does. Neither a policy nor the store is looked at before.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed(&self, consumer: &str) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::Consumer(consumer))
    }

    /// Whether the caller may do for all consumers what the RPC does.
    ///
    /// # Errors
    /// `CONSUMER_NOT_ALLOWED`.
    pub(crate) fn allowed_everywhere(&self) -> Result<(), Rejection> {
        self.has(self.rpc.map(|rpc| rpc.needs), Whose::All)
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
        self.budget.refused(&rejection);
        Err(rejection)
    }
}

fn unauthenticated(door: &Door, budget: &Budget, rpc: Option<Rpc>, refused: Refused) -> Rejection {
    let (peer, rpc) = (door.peer().address, rpc.map_or("", |rpc| rpc.name));
    warn_once_a_second!(%peer, rpc, why = %refused, "refused: the caller is not authenticated");
    let rejection = Rejection::new(Reason::Unauthenticated, format!("{refused}; nothing was changed"));
    budget.refused(&rejection);
    rejection
}

/// The caller of a request that came through the edge.
///
/// # Errors
/// `INTERNAL`: it did not come through the edge, so that nobody knows who calls.
pub(crate) fn caller(extensions: &Extensions) -> Result<&Caller, Rejection> {
    extensions.get::<Caller>().ok_or_else(|| errors::internal("a request did not come through the edge"))
}
