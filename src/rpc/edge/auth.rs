//! Who calls. Authentication is off: everybody is `anonymous`.

use std::borrow::Cow;

use http::{Extensions, HeaderMap};

use crate::domain::{Rejection, Submission, TraceId};
use crate::rpc::wire::errors;

const ANONYMOUS: &str = "anonymous";
/// A W3C `traceparent` has 55 characters.
const TRACEPARENT_MAX: usize = 64;

/// Who calls. The edge puts it into the extensions of each request.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The authenticated identity.
    pub(crate) principal: Cow<'static, str>,
    /// The trace context that came with the call; empty: none.
    pub(crate) traceparent: String,
    pub(super) trace_id: Option<TraceId>,
}

impl Caller {
    /// The caller of a request with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Caller {
        let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let traceparent = traceparent.filter(|text| text.len() <= TRACEPARENT_MAX).unwrap_or_default();
        Caller {
            principal: Cow::Borrowed(ANONYMOUS),
            traceparent: traceparent.to_owned(),
            trace_id: TraceId::of(traceparent),
        }
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
