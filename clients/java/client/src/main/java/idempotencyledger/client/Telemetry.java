package idempotencyledger.client;

import java.util.Map;

/** Traces and metrics, where the application has OpenTelemetry's API; else nothing. */
interface Telemetry {
  /** Begins the span of one delivery; {@code current}: it is the thread's until it ends, there. */
  Span delivery(String consumer, boolean current);

  /** What the application propagates: {@code traceparent}, for example. */
  Map<String, String> propagated();

  /** A delivery under way. */
  interface Span {
    /** The delivery has ended; the outcome is null where there is none. */
    void end(Outcome outcome);
  }

  /** OpenTelemetry where its API is on the class path. */
  static Telemetry found() {
    try {
      Class.forName("io.opentelemetry.api.GlobalOpenTelemetry");
    } catch (ClassNotFoundException | LinkageError absent) {
      return new None();
    }
    return new OpenTelemetryTelemetry();
  }

  /** Without OpenTelemetry. */
  final class None implements Telemetry {
    @Override
    public Span delivery(String consumer, boolean current) {
      return outcome -> {};
    }

    @Override
    public Map<String, String> propagated() {
      return Map.of();
    }
  }
}
