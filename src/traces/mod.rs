//! OpenTelemetry spans: one for each call, one for each batch with commands of the call, and one for each statement of the
//! batch. Names and attributes are those of the semantic conventions for RPC and databases; the ledger's own attributes begin
//! with `idempotency_ledger.`.
//!
//! Whether a call is recorded (sampled) is decided once, when it arrives. A call that is not recorded has an empty [`Option`] as
//! its span, and costs only the checks whether it is empty.

mod batch;
mod call;
mod context;
#[cfg(test)]
mod tests;

use http::HeaderMap;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt as _, Tracer as _};
use opentelemetry_sdk::trace::SdkTracer;

pub(crate) use self::batch::BatchSpan;
pub(crate) use self::call::{CallSpan, Served};

/// The tracer, if calls are recorded. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SdkTracer>);

impl Traces {
    /// No call is recorded.
    #[must_use]
    pub fn off() -> Traces {
        Traces(None)
    }

    /// Records the calls that the sampler of this tracer selects.
    #[must_use]
    pub fn by(tracer: SdkTracer) -> Traces {
        Traces(Some(tracer))
    }

    /// Starts the span of a call of this method, as `PACKAGE.SERVICE/METHOD`; `None` if the server does not have the method.
    /// The span belongs to the trace of the caller in the headers.
    pub(crate) fn call(&self, method: Option<&str>, headers: &HeaderMap) -> Served {
        let Some(tracer) = &self.0 else { return Served::default() };
        let name = method.unwrap_or("grpc").to_owned();
        let named = tracer.span_builder(name).with_kind(SpanKind::Server);
        let mut span = named.start_with_context(tracer, &context::parent(headers));
        if !span.is_recording() {
            return Served::default();
        }
        span.set_attribute(KeyValue::new("rpc.system.name", "grpc"));
        // The name of an unknown method in the semantic conventions.
        span.set_attribute(KeyValue::new("rpc.method", method.unwrap_or("_OTHER").to_owned()));
        Served::new(CallSpan::new(tracer.clone(), opentelemetry::Context::new().with_span(span)))
    }
}
