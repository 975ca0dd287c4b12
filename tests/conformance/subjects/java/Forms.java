import idempotencyledger.client.Advice;
import idempotencyledger.client.Claim;
import idempotencyledger.client.Codec;
import idempotencyledger.client.Delivery;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.NoResultException;
import idempotencyledger.client.NotGrantedException;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.Retry;
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.ContextPropagators;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * The forms that only the Java package has: blocks, calls with a codec, interrupts. It exits with 0
 * where all are right.
 */
public final class Forms {
  private static final String RUN = UUID.randomUUID().toString();
  private static final Codec<String> TEXT =
      new Codec<>() {
        @Override
        public byte[] encode(String value) {
          if (value.equals("unstorable")) {
            throw new IllegalArgumentException(value);
          }
          return value.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String decode(byte[] bytes) {
          return new String(bytes, StandardCharsets.UTF_8);
        }
      };

  private Forms() {}

  public static void main(String[] arguments) throws Exception {
    GlobalOpenTelemetry.set(
        OpenTelemetry.propagating(
            ContextPropagators.create(W3CTraceContextPropagator.getInstance())));
    try (Ledger ledger = Ledger.builder("effects").build()) {
      blocks(ledger);
      calls(ledger);
      interrupts(ledger);
      lost(ledger);
      traced(ledger);
    }
    System.exit(0);
  }

  private static Key key(String name) {
    return Key.fromCloudEvent(Map.of("source", "forms", "id", name + "-" + RUN));
  }

  private static void check(boolean truth, Object otherwise) {
    if (!truth) {
      throw new AssertionError(otherwise);
    }
  }

  private static void blocks(Ledger ledger) {
    Claim first;
    try (Claim claim = ledger.claim(key("block"))) {
      check(claim.granted() && claim.attempt() == 1, claim.attempt());
      check(claim.onExpiry() == Claim.OnExpiry.RECLAIM, claim.onExpiry());
      claim.complete(new byte[] {'r'});
      first = claim;
    }
    check(first.outcome().advice() == Advice.ACK, first.outcome());
    try (Claim again = ledger.claim(key("block"))) {
      check(!again.granted() && again.outcome().replayed(), again.outcome());
      check(again.outcome().result().orElseThrow()[0] == 'r', again.outcome());
      try {
        throw new AssertionError("a claim that was not granted has the token " + again.token());
      } catch (NotGrantedException right) {
        check(right.getMessage().contains("not granted"), right);
      }
    }
    Claim steered;
    try (Claim claim = ledger.claim(key("steered"))) {
      steered = claim;
      claim.settle(new Retry(Duration.ofSeconds(5)));
    }
    Outcome later = steered.outcome();
    check(later.advice() == Advice.RETRY_LATER && later.delay().toSeconds() >= 4, later);
    Claim forgotten;
    try (Claim claim = ledger.claim(key("forgotten"))) {
      forgotten = claim;
    }
    check(forgotten.outcome().advice() == Advice.DEAD_LETTER, forgotten.outcome());
    check(forgotten.outcome().reason().orElse("").equals("NOT_SETTLED"), forgotten.outcome());
  }

  private static void calls(Ledger ledger) throws Exception {
    List<String> called = new ArrayList<>();
    for (int at = 0; at < 2; at++) {
      Delivery delivery = Delivery.of(key("call")).withBody(new byte[] {1});
      String value = ledger.call(delivery, TEXT, claim -> "value " + called.add("call"));
      check(value.equals("value true"), value);
    }
    check(called.size() == 1, called);
    for (String name : List.of("unstorable", "unstorable")) { // A repeat has no second effect.
      try {
        ledger.call(Delivery.of(key(name)), TEXT, claim -> name + (called.add(name) ? "" : "?"));
        throw new AssertionError("a value that cannot be stored was returned");
      } catch (NoResultException right) {
        check(right.outcome().advice() == Advice.ACK, right);
        check(right.outcome().resultDropped(), right);
      }
    }
    check(called.size() == 2, called);
    try {
      ledger.call(
          Delivery.of(key("faulty")),
          TEXT,
          claim -> {
            throw new NoSuchElementException();
          });
      throw new AssertionError("an error of a call was lost");
    } catch (NoSuchElementException right) {
      check(ledger.process(key("faulty"), c -> null).advice() == Advice.DEAD_LETTER, right);
    }
  }

  private static void interrupts(Ledger ledger) {
    Outcome cut =
        ledger.process(
            key("interrupted"),
            claim -> {
              Thread.currentThread().interrupt();
              TimeUnit.SECONDS.sleep(30);
              return null;
            });
    check(cut.reason().orElse("").equals("INTERRUPTED") && cut.effectUnknown(), cut);
    check(Thread.currentThread().isInterrupted(), "the interrupt was swallowed");
    Outcome none = ledger.process(key("not-begun"), claim -> new byte[0]);
    check(none.reason().orElse("").equals("CLOSING") && none.attempt() == 0, none);
    Thread.interrupted();
    Outcome done =
        ledger.process(
            key("completed"),
            claim -> {
              Thread.currentThread().interrupt();
              return new byte[0];
            });
    check(done.advice() == Advice.ACK && Thread.interrupted(), done);
    check(ledger.process(key("not-begun"), claim -> null).attempt() == 1, "it had begun");
  }

  private static void lost(Ledger ledger) throws Exception {
    Outcome outcome =
        ledger.process(
            key("lost-handler"),
            claim -> {
              TimeUnit.SECONDS.sleep(30);
              return null;
            });
    check(outcome.reason().orElse("").equals("LEASE_LOST"), outcome);
    check(!Thread.currentThread().isInterrupted(), "the loss has left its interrupt behind");
    try (Claim claim = ledger.claim(key("lost-block"))) {
      String reason = claim.whenLost().toCompletableFuture().get(20, TimeUnit.SECONDS);
      check(reason.equals("LEASE_LOST") && claim.lost().orElse("").equals(reason), reason);
      check(claim.complete(null).advice() == Advice.ACK, claim.outcome());
    }
  }

  private static void traced(Ledger ledger) {
    SpanContext parent =
        SpanContext.create(
            "00000000000000000000000000000abc",
            "0000000000000def",
            TraceFlags.getSampled(),
            TraceState.getDefault());
    try (Scope scope = Span.wrap(parent).makeCurrent()) {
      check(ledger.process(key("traced"), claim -> null).advice() == Advice.ACK, scope);
    }
    System.out.println("traced");
  }
}
