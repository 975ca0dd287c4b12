//! The W3C trace context in the headers of calls, and as stored in entries.

use http::HeaderMap;
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

/// A carrier with only a `traceparent`.
struct Kept<'a>(&'a str);

impl Extractor for Kept<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        (key == "traceparent").then_some(self.0)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

/// The context of the caller's span in these headers; empty without one.
pub(super) fn parent(headers: &HeaderMap) -> Context {
    extracted(&Headers(headers))
}

/// The context of the span in a `traceparent`; `None` if the text is malformed.
pub(super) fn kept(traceparent: &str) -> Option<SpanContext> {
    let context = extracted(&Kept(traceparent));
    let span = context.span().span_context().clone();
    span.is_valid().then_some(span)
}

fn extracted(from: &dyn Extractor) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), from)
}

/// The `traceparent` of this span.
pub(super) fn written(span: &SpanContext) -> String {
    format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_malformed_traceparent_is_none() {
        let canonical = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        assert_eq!(kept(canonical).map(|span| written(&span)).as_deref(), Some(canonical));
        for text in ["", "rubbish", "00-00000000000000000000000000000000-00f067aa0ba902b7-01"] {
            assert_eq!(kept(text), None, "{text}");
        }
    }
}
