//! What is recorded of a call for OpenTelemetry: a span of the call itself, one of each batch that carries its
//! commands, and one of each statement of the batch. Names and attributes are those of OpenTelemetry's conventions for
//! RPC and for databases; what belongs to the ledger begins with `idempotency_ledger.`.
//!
//! Whether a call is recorded is decided once, when it comes in. Of a call that is not recorded nothing is kept: its
//! span is an empty [`Option`], and all that is asked of it later is whether it is there.

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

/// Whether calls are recorded, and by what: cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SdkTracer>);

impl Traces {
    /// No call is recorded.
    #[must_use]
    pub fn off() -> Traces {
        Traces(None)
    }

    /// Calls are recorded where the sampler of this tracer says so.
    #[must_use]
    pub fn by(tracer: SdkTracer) -> Traces {
        Traces(Some(tracer))
    }

    /// A call of this method, as `PACKAGE.SERVICE/METHOD`; none: one that the server does not have. Its span belongs to
    /// the trace of the caller, as the headers tell it.
    pub(crate) fn call(&self, method: Option<&str>, headers: &HeaderMap) -> Served {
        let Some(tracer) = &self.0 else { return Served::default() };
        let name = method.unwrap_or("grpc").to_owned();
        let named = tracer.span_builder(name).with_kind(SpanKind::Server);
        let mut span = named.start_with_context(tracer, &context::parent(headers));
        if !span.is_recording() {
            return Served::default();
        }
        span.set_attribute(KeyValue::new("rpc.system.name", "grpc"));
        // The convention's word for a method that nobody knows.
        span.set_attribute(KeyValue::new("rpc.method", method.unwrap_or("_OTHER").to_owned()));
        Served::new(CallSpan::new(tracer.clone(), opentelemetry::Context::new().with_span(span)))
    }
}
