//! Traces and metrics by OpenTelemetry's API, where the feature `opentelemetry` is on; else nothing. Neither has a payload,
//! a key or a token.

#[cfg(feature = "opentelemetry")]
pub(crate) use with::{Parent, Telemetry, inject, within};
#[cfg(not(feature = "opentelemetry"))]
pub(crate) use without::{Parent, Telemetry, inject, within};

#[cfg(feature = "opentelemetry")]
mod with {
    use std::{future::Future, sync::OnceLock};

    use opentelemetry::{
        Context, KeyValue,
        context::FutureExt as _,
        global::{self, BoxedTracer},
        metrics::Histogram,
        propagation::Injector,
        trace::{TraceContextExt as _, Tracer as _},
    };
    use tokio::time::Instant;
    use tonic::metadata::{MetadataKey, MetadataMap};

    use crate::outcome::Outcome;

    const NAME: &str = "idempotency_ledger";

    /// The spans and the metric of one consumer, by the providers that are set when the first delivery arrives.
    pub(crate) struct Telemetry {
        consumer: String,
        instruments: OnceLock<(BoxedTracer, Histogram<f64>)>,
    }

    impl Telemetry {
        pub(crate) fn new(consumer: &str) -> Self {
            Self { consumer: consumer.to_owned(), instruments: OnceLock::new() }
        }

        /// Runs the work of a delivery in a separate span, and measures it.
        pub(crate) async fn delivery(&self, parent: Parent, work: impl Future<Output = Outcome>) -> Outcome {
            let (tracer, duration) = self.instruments.get_or_init(|| {
                let meter = global::meter(NAME);
                let duration = meter
                    .f64_histogram("idempotency_ledger.client.process.duration")
                    .with_unit("s")
                    .with_description("Time from a delivery's Claim to its outcome, the handler included.");
                (global::tracer(NAME), duration.build())
            });
            let consumer = KeyValue::new("idempotency_ledger.consumer", self.consumer.clone());
            let span = tracer
                .span_builder(format!("process {}", self.consumer))
                .with_attributes([consumer.clone()])
                .start_with_context(tracer, &parent.0);
            let (context, began) = (parent.0.with_span(span), Instant::now());
            let outcome = work.with_context(context.clone()).await;
            let advice = KeyValue::new("idempotency_ledger.advice", outcome.advice.name());
            let replayed = KeyValue::new("idempotency_ledger.replayed", outcome.replayed);
            context.span().set_attributes([advice.clone(), replayed.clone()]);
            duration.record(began.elapsed().as_secs_f64(), &[consumer, advice, replayed]);
            outcome
        }
    }

    /// The span of the caller, for a task that works for it.
    pub(crate) struct Parent(Context);

    impl Parent {
        pub(crate) fn current() -> Self {
            Self(Context::current())
        }
    }

    /// The work of a task within the span that is current now.
    pub(crate) fn within<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
        work.with_context(Context::current())
    }

    /// Adds what the application propagates to a call. `traceparent` is sent also where no propagator is set.
    pub(crate) fn inject(metadata: &mut MetadataMap) {
        let context = Context::current();
        global::get_text_map_propagator(|known| known.inject_context(&context, &mut Carrier(metadata)));
        let span = context.span().span_context().clone();
        if span.is_valid() && !metadata.contains_key("traceparent") {
            let (trace, span, flags) = (span.trace_id(), span.span_id(), span.trace_flags().to_u8());
            Carrier(metadata).set("traceparent", format!("00-{trace}-{span}-{flags:02x}"));
        }
    }

    struct Carrier<'a>(&'a mut MetadataMap);

    impl Injector for Carrier<'_> {
        fn set(&mut self, key: &str, value: String) {
            if let (Ok(key), Ok(value)) = (MetadataKey::from_bytes(key.as_bytes()), value.parse()) {
                self.0.insert(key, value);
            }
        }
    }
}

#[cfg(not(feature = "opentelemetry"))]
mod without {
    use std::future::Future;

    use tonic::metadata::MetadataMap;

    use crate::outcome::Outcome;

    pub(crate) struct Telemetry;

    impl Telemetry {
        pub(crate) fn new(_consumer: &str) -> Self {
            Self
        }

        #[allow(clippy::unused_self, reason = "the same as with the feature")]
        pub(crate) async fn delivery(&self, _parent: Parent, work: impl Future<Output = Outcome>) -> Outcome {
            work.await
        }
    }

    pub(crate) struct Parent;

    impl Parent {
        pub(crate) fn current() -> Self {
            Self
        }
    }

    pub(crate) fn within<F: Future>(work: F) -> F {
        work
    }

    pub(crate) fn inject(_metadata: &mut MetadataMap) {}
}
