//! Who calls. Authentication is off: everybody is `anonymous`.

use std::borrow::Cow;

use http::{Extensions, HeaderMap};

use crate::domain::{Rejection, Submission, TraceId};
use crate::rpc::wire::errors;
use crate::traces::CallSpan;

const ANONYMOUS: &str = "anonymous";
/// A W3C `traceparent` has 55 characters.
const TRACEPARENT_MAX: usize = 64;

/// Who calls. The edge puts it into the extensions of each request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The authenticated identity.
    pub(crate) principal: Cow<'static, str>,
    /// The trace context of its span, or else, where it is not recorded, the one that came with it; empty: none.
    pub(crate) traceparent: String,
    pub(super) trace_id: Option<TraceId>,
    pub(crate) span: CallSpan,
}

impl Caller {
    /// The caller of a request with these headers, whose call has this span.
    pub(super) fn of(headers: &HeaderMap, span: CallSpan) -> Caller {
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| text.len() <= TRACEPARENT_MAX).map(str::to_owned);
        let traceparent = span.traceparent().or(traceparent).unwrap_or_default();
        let trace_id = TraceId::of(&traceparent);
        Caller { principal: Cow::Borrowed(ANONYMOUS), traceparent, trace_id, span }
    }

    /// The same, by this caller.
    pub(crate) fn submits(&self, submission: Submission) -> Submission {
        Submission { trace_id: self.trace_id, ..submission }
    }
}

/// The caller of a request that came through the edge.
///
/// # Errors
/// `INTERNAL`: it did not come through the edge, so that nobody knows who calls.
pub(crate) fn caller(extensions: &Extensions) -> Result<&Caller, Rejection> {
    extensions.get::<Caller>().ok_or_else(|| errors::internal("a request did not come through the edge"))
}
