//! The span of a call.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::trace::{SpanContext, SpanId, SpanRef, Status, TraceContextExt as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use tonic::Code;

use super::context;
use crate::domain::{Key, Reason};

/// The span of a call, for the code that executes the call. Empty if the call is not recorded; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallSpan(Option<Arc<Recorded>>);

#[derive(Debug)]
struct Recorded {
    tracer: SdkTracer,
    context: Context,
    /// The first attempts that it has links to.
    first_attempts: Mutex<HashSet<SpanId>>,
}

impl CallSpan {
    pub(super) fn new(tracer: SdkTracer, context: Context) -> CallSpan {
        CallSpan(Some(Arc::new(Recorded { tracer, context, first_attempts: Mutex::default() })))
    }

    fn span(&self) -> Option<SpanRef<'_>> {
        self.0.as_ref().map(|recorded| recorded.context.span())
    }

    /// Whether the call is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.0.is_some()
    }

    /// The tracer and context for child spans; `None` if the call is not recorded.
    pub(super) fn maker(&self) -> Option<(&SdkTracer, &Context)> {
        self.0.as_ref().map(|recorded| (&recorded.tracer, &recorded.context))
    }

    /// The context for links to this span.
    pub(super) fn context(&self) -> Option<SpanContext> {
        self.span().map(|span| span.span_context().clone())
    }

    /// The W3C `traceparent` of this span.
    pub(crate) fn traceparent(&self) -> Option<String> {
        self.span().map(|span| context::written(span.span_context()))
    }

    /// Records the message of the call.
    pub(crate) fn about(&self, key: &Key, event_type: &str) {
        let Some(span) = self.span() else { return };
        span.set_attribute(KeyValue::new("idempotency_ledger.consumer", key.consumer().to_owned()));
        span.set_attribute(KeyValue::new("idempotency_ledger.key", key.hash().to_string()));
        if !event_type.is_empty() {
            span.set_attribute(KeyValue::new("idempotency_ledger.event_type", event_type.to_owned()));
        }
    }

    /// Records the number of items of the call.
    pub(crate) fn has_items(&self, items: usize) {
        let Some(span) = self.span() else { return };
        span.set_attribute(KeyValue::new("idempotency_ledger.items", whole(items)));
    }

    /// Records the answer to the single message of the call, by its word in the metrics, and the attempt.
    pub(crate) fn answered(&self, (label, word): (&'static str, &'static str), attempt: Option<i32>) {
        let Some(span) = self.span() else { return };
        span.set_attribute(KeyValue::new(format!("idempotency_ledger.{label}"), word));
        if let Some(attempt) = attempt {
            span.set_attribute(KeyValue::new("idempotency_ledger.attempt", i64::from(attempt)));
        }
    }

    /// Records that the single message of the call was refused.
    pub(crate) fn refused(&self, reason: Reason) {
        let Some(span) = self.span() else { return };
        span.set_attribute(KeyValue::new("idempotency_ledger.reason", reason.word()));
    }

    /// Adds a link to the trace of a message's first attempt.
    pub(crate) fn link_first(&self, traceparent: &str) {
        let Some((recorded, span)) = self.0.as_ref().zip(self.span()) else { return };
        let Some(first) = context::kept(traceparent) else { return };
        if first.span_id() == span.span_context().span_id() {
            // The first attempt is another item of the same call.
            return;
        }
        // A command that conflicts with another is decided again, and must not add the link twice.
        let mut known = recorded.first_attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= LINKS_MAX || !known.insert(first.span_id()) {
            return;
        }
        span.add_link(first, vec![KeyValue::new("idempotency_ledger.link", "first_attempt")]);
    }

    /// Adds a link to a batch that has commands of this call and belongs to another trace.
    pub(super) fn link_batch(&self, batch: SpanContext) {
        let Some(span) = self.span() else { return };
        span.add_link(batch, vec![KeyValue::new("idempotency_ledger.link", "batch")]);
    }

    fn end(&self, code: Code) {
        let Some(span) = self.span() else { return };
        let status = status_word(code);
        span.set_attribute(KeyValue::new("rpc.response.status_code", status));
        if is_failure(code) {
            span.set_attribute(KeyValue::new("error.type", status));
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

/// The span of a call, for the code that answers the call. Dropped without an answer, it records that the client cancelled.
#[derive(Debug, Default)]
pub(crate) struct Served(CallSpan);

impl Served {
    pub(super) fn new(span: CallSpan) -> Served {
        Served(span)
    }

    /// The span for the code that executes the call.
    pub(crate) fn span(&self) -> &CallSpan {
        &self.0
    }

    /// Ends the span with this status.
    pub(crate) fn end(&mut self, code: Code) {
        std::mem::take(&mut self.0).end(code);
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.end(Code::Cancelled);
    }
}

/// The maximum number of links that the server adds to a span.
pub(super) const LINKS_MAX: usize = 32;

pub(super) fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Whether a status is an error of the server, and not of its caller.
fn is_failure(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// The name of a status in the gRPC protocol.
fn status_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the gRPC protocol: those of the codes, in capitals.
    #[test]
    fn status_word_is_the_name_of_each_code() {
        for number in 0..=16 {
            let code = Code::from_i32(number);
            let mut word = String::new();
            for letter in format!("{code:?}").chars() {
                if letter.is_ascii_uppercase() && !word.is_empty() {
                    word.push('_');
                }
                word.push(letter.to_ascii_uppercase());
            }
            assert_eq!(status_word(code), word);
        }
    }
}
