package ledger

import (
	"context"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"
)

const instrumentation = "idempotency_ledger"

// telemetry is the spans and the metric of one consumer, by OpenTelemetry's API: nothing, unless the application has set its
// providers. Neither has a payload, a key or a token.
type telemetry struct {
	consumer attribute.KeyValue
	span     string
	tracer   trace.Tracer
	duration metric.Float64Histogram
}

func newTelemetry(consumer string) *telemetry {
	duration, err := otel.Meter(instrumentation).Float64Histogram("idempotency_ledger.client.process.duration",
		metric.WithUnit("s"), metric.WithDescription("Time from a delivery's Claim to its outcome, the handler included."))
	if err != nil {
		otel.Handle(err)
	}
	return &telemetry{
		consumer: attribute.String("idempotency_ledger.consumer", consumer),
		span:     "process " + consumer,
		tracer:   otel.Tracer(instrumentation),
		duration: duration,
	}
}

// delivery begins the span of a delivery, which the context has that it returns; the function that it returns ends it.
func (t *telemetry) delivery(ctx context.Context) (context.Context, func(outcome)) {
	began := time.Now()
	ctx, span := t.tracer.Start(ctx, t.span, trace.WithAttributes(t.consumer))
	return ctx, func(found outcome) {
		known := []attribute.KeyValue{
			t.consumer,
			attribute.String("idempotency_ledger.advice", found.Advice.String()),
			attribute.Bool("idempotency_ledger.replayed", found.Replayed),
		}
		span.SetAttributes(known...)
		span.End()
		t.duration.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(known...))
	}
}

// propagated is the context of a call: with traceparent and what else the application propagates, and without metadata that
// the caller's context may have for another service.
func propagated(ctx context.Context) context.Context {
	sent := metadata.MD{}
	propagator := otel.GetTextMapPropagator()
	if len(propagator.Fields()) == 0 { // The application has set none.
		propagator = propagation.TraceContext{}
	}
	propagator.Inject(ctx, carrier(sent))
	return metadata.NewOutgoingContext(ctx, sent)
}

// carrier writes what is propagated into the metadata of a call.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
