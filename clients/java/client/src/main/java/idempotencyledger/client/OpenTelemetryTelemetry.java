package idempotencyledger.client;

import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.common.AttributesBuilder;
import io.opentelemetry.api.metrics.DoubleHistogram;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** By OpenTelemetry's API. Nothing has a payload, a key or a token. */
final class OpenTelemetryTelemetry implements Telemetry {
  private static final String NAME = "idempotency_ledger";
  private static final AttributeKey<String> CONSUMER =
      AttributeKey.stringKey("idempotency_ledger.consumer");
  private static final AttributeKey<String> ADVICE =
      AttributeKey.stringKey("idempotency_ledger.advice");
  private static final AttributeKey<Boolean> REPLAYED =
      AttributeKey.booleanKey("idempotency_ledger.replayed");

  /**
   * Made with the first delivery: an application sets its OpenTelemetry before it, and may do so
   * after the client is made.
   */
  private static final class Instruments {
    private static final DoubleHistogram DURATION =
        GlobalOpenTelemetry.getMeter(NAME)
            .histogramBuilder("idempotency_ledger.client.process.duration")
            .setUnit("s")
            .setDescription("Time from a delivery's Claim to its outcome, the handler included.")
            .build();
  }

  @Override
  public Span delivery(String consumer, boolean current) {
    long began = System.nanoTime();
    io.opentelemetry.api.trace.Span span =
        GlobalOpenTelemetry.getTracer(NAME)
            .spanBuilder("process " + consumer)
            .setAttribute(CONSUMER, consumer)
            .startSpan();
    Scope scope = current ? span.makeCurrent() : Scope.noop();
    return outcome -> {
      AttributesBuilder named = Attributes.builder().put(CONSUMER, consumer);
      if (outcome != null) {
        named.put(ADVICE, outcome.advice().name()).put(REPLAYED, outcome.replayed());
      }
      Attributes attributes = named.build();
      span.setAllAttributes(attributes);
      double seconds = (System.nanoTime() - began) / (double) TimeUnit.SECONDS.toNanos(1);
      Instruments.DURATION.record(seconds, attributes);
      scope.close();
      span.end();
    };
  }

  @Override
  public Map<String, String> propagated() {
    Map<String, String> carrier = new HashMap<>();
    GlobalOpenTelemetry.getPropagators()
        .getTextMapPropagator()
        .inject(Context.current(), carrier, (map, name, value) -> map.put(name, value));
    return carrier;
  }
}
