//! Recorded spans, as an exporter receives them.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use opentelemetry::trace::{SpanId, Status, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tonic::Code;

use super::batch::BatchSpan;
use super::call::{CallSpan, Served};
use super::*;

/// An exporter that keeps the ended spans.
#[derive(Clone, Debug, Default)]
struct KeptSpans(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for KeptSpans {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().expect("the spans").extend(batch);
        Ok(())
    }
}

impl KeptSpans {
    fn traces(&self) -> Traces {
        let provider = SdkTracerProvider::builder().with_simple_exporter(self.clone()).build();
        Traces::by(provider.tracer("test"))
    }

    fn named(&self, name: &str) -> Vec<SpanData> {
        let all = self.0.lock().expect("the spans");
        all.iter().filter(|span| span.name == name).cloned().collect()
    }
}

fn links(span: &SpanData) -> Vec<SpanId> {
    span.links.iter().map(|link| link.span_context.span_id()).collect()
}

fn attribute(span: &SpanData, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|one| one.key.as_str() == name);
    found.map(|one| one.value.as_str().into_owned())
}

#[test]
fn batch_and_calls_link_to_each_other() {
    // The number of calls, each with three commands; of links; and of calls without a link.
    for (calls, linked, left_out) in [(1, 0, None), (2, 1, None), (33, 32, None), (40, 32, Some("7"))] {
        let kept = KeptSpans::default();
        let mut served: Vec<Served> =
            (0..calls).map(|_| kept.traces().call(Some("s/Claim"), &HeaderMap::new())).collect();
        // Calls that are not recorded change nothing.
        let unrecorded = CallSpan::default();
        let commands = served.iter().map(Served::span).cycle().take(3 * calls);
        let batch = BatchSpan::of(std::iter::once(&unrecorded).chain(commands), || "postgresql");
        drop(batch.statement("insert", 1));
        batch.statement("load", 7).failed("locked");
        drop(batch);
        for call in &mut served {
            call.end(Code::Ok);
        }
        let batch = &kept.named("batch")[0];
        let calls_seen = kept.named("s/Claim");
        let (first, others) = calls_seen.split_first().expect("a call");
        assert_eq!(batch.parent_span_id, first.span_context.span_id());
        assert_eq!(batch.span_context.trace_id(), first.span_context.trace_id());
        let others_ids: Vec<SpanId> = others.iter().map(|call| call.span_context.span_id()).collect();
        assert_eq!(links(batch), others_ids[..linked], "{calls} calls");
        assert_eq!(attribute(batch, "idempotency_ledger.commands"), Some((3 * calls + 1).to_string()));
        assert_eq!(attribute(batch, "idempotency_ledger.more_calls").as_deref(), left_out);
        assert!(links(first).is_empty());
        assert!(others.iter().all(|call| links(call) == [batch.span_context.span_id()]));
        let (insert, load) = (&kept.named("insert")[0], &kept.named("load")[0]);
        assert_eq!((&insert.status, &load.status), (&Status::Unset, &Status::error("")));
        assert_eq!(attribute(insert, "idempotency_ledger.rows").as_deref(), Some("1"));
        assert_eq!(attribute(load, "idempotency_ledger.rows").as_deref(), Some("7"));
        assert_eq!(attribute(load, "error.type").as_deref(), Some("locked"));
    }
}

#[test]
fn batch_of_unrecorded_calls_does_not_ask_for_database() {
    let calls = [CallSpan::default(), CallSpan::default()];
    let batch = BatchSpan::of(calls.iter(), || panic!("it must not be asked"));
    drop(batch.statement("insert", 1));
}

#[test]
fn served_end_records_status() {
    for (code, status, is_error) in [
        (Some(Code::Ok), "OK", false),
        (Some(Code::InvalidArgument), "INVALID_ARGUMENT", false),
        (Some(Code::ResourceExhausted), "RESOURCE_EXHAUSTED", false),
        (Some(Code::Unavailable), "UNAVAILABLE", true),
        (Some(Code::Internal), "INTERNAL", true),
        (Some(Code::DeadlineExceeded), "DEADLINE_EXCEEDED", true),
        // The client cancelled.
        (None, "CANCELLED", false),
    ] {
        let kept = KeptSpans::default();
        let mut served = kept.traces().call(None, &HeaderMap::new());
        if let Some(code) = code {
            served.end(code);
        }
        drop(served);
        let [span] = &kept.named("grpc")[..] else { panic!("it ends once") };
        assert_eq!(attribute(span, "rpc.response.status_code").as_deref(), Some(status));
        assert_eq!(attribute(span, "error.type").as_deref(), is_error.then_some(status));
        assert_eq!(span.status == Status::error(""), is_error, "{status}");
    }
}

#[test]
fn link_first_links_each_attempt_once_up_to_the_limit() {
    let kept = KeptSpans::default();
    let mut served = kept.traces().call(Some("s/BatchClaim"), &HeaderMap::new());
    let first = |number: usize| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-{:016x}-01", number + 1);
    for number in (0..40).flat_map(|number| [number, number]) {
        served.span().link_first(&first(number));
    }
    served.span().link_first("rubbish");
    // An item of the same call.
    served.span().link_first(&served.span().traceparent().expect("it is recorded"));
    served.end(Code::Ok);
    let expected: Vec<SpanId> =
        (0..32_u64).map(|number| SpanId::from_bytes((number + 1).to_be_bytes())).collect();
    assert_eq!(links(&kept.named("s/BatchClaim")[0]), expected);
}
