//! The span of a batch, and the spans of its statements.

use std::collections::HashSet;

use opentelemetry::trace::{Link, Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SdkTracer, Span};

use super::call::{CallSpan, LINKS_MAX, whole};

/// The span of a batch. It belongs to the trace of the first recorded call in it, and has links to the other calls, up to a
/// limit, and the number of the remaining ones as an attribute; the calls link back to it. Empty if no call in it is recorded.
#[derive(Debug, Default)]
pub(crate) struct BatchSpan(Option<Recorded>);

#[derive(Debug)]
struct Recorded {
    tracer: SdkTracer,
    context: Context,
    /// The database system, by its name in the semantic conventions.
    database: &'static str,
}

impl BatchSpan {
    /// Starts the span of a batch with the commands of these calls; a call may occur several times. `database` is called only
    /// if one of the calls is recorded.
    pub(crate) fn of<'a>(
        calls: impl Iterator<Item = &'a CallSpan>,
        database: impl FnOnce() -> &'static str,
    ) -> BatchSpan {
        let mut commands = 0_usize;
        let mut recorded = calls.inspect(|_| commands += 1).filter_map(|call| Some((call, call.context()?)));
        let Some((first, own)) = recorded.next() else { return BatchSpan::default() };
        let mut known = HashSet::from([own.span_id()]);
        let others: Vec<_> = recorded.filter(|(_, context)| known.insert(context.span_id())).collect();
        let Some((tracer, parent)) = first.maker() else { return BatchSpan::default() };
        let links = others.iter().take(LINKS_MAX).map(|(_, context)| Link::with_context(context.clone()));
        let more = others.len().saturating_sub(LINKS_MAX);
        let mut attributes = vec![KeyValue::new("idempotency_ledger.commands", whole(commands))];
        if more > 0 {
            attributes.push(KeyValue::new("idempotency_ledger.more_calls", whole(more)));
        }
        let named = tracer.span_builder("batch").with_kind(SpanKind::Internal);
        let span =
            named.with_attributes(attributes).with_links(links.collect()).start_with_context(tracer, parent);
        let context = Context::new().with_span(span);
        for (call, _) in others {
            call.link_batch(context.span().span_context().clone());
        }
        BatchSpan(Some(Recorded { tracer: tracer.clone(), context, database: database() }))
    }

    /// Starts the span of a statement with this name and number of rows.
    pub(crate) fn statement(&self, name: &'static str, rows: usize) -> StatementSpan {
        let Some(Recorded { tracer, context, database }) = &self.0 else { return StatementSpan::default() };
        let attributes = [
            KeyValue::new("db.system.name", *database),
            KeyValue::new("db.query.summary", name),
            KeyValue::new("idempotency_ledger.rows", whole(rows)),
        ];
        let named = tracer.span_builder(name).with_kind(SpanKind::Client);
        StatementSpan(Some(named.with_attributes(attributes).start_with_context(tracer, context)))
    }
}

/// The span of a statement; it ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct StatementSpan(Option<Span>);

impl StatementSpan {
    /// Records that the statement failed with this kind of error.
    pub(crate) fn failed(&mut self, kind: &'static str) {
        let Some(span) = &mut self.0 else { return };
        span.set_attribute(KeyValue::new("error.type", kind));
        span.set_status(Status::error(""));
    }
}
