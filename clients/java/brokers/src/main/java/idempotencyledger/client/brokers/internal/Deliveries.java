package idempotencyledger.client.brokers.internal;

import idempotencyledger.client.Delivery;
import idempotencyledger.client.GiveBack;
import idempotencyledger.client.Handler;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import idempotencyledger.client.brokers.internal.Verdict.Kind;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** Processes the deliveries of one run of an adapter, and keeps what has ended the run. */
public final class Deliveries {
  private static final String NO_ID = "NO_ID";

  private final Ledger ledger;
  private final Log log;
  private final AtomicReference<Throwable> failure = new AtomicReference<>();

  /**
   * The deliveries of one run.
   *
   * @param ledger the client
   * @param log the adapter's log
   */
  public Deliveries(Ledger ledger, Log log) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.log = log;
  }

  /**
   * Processes a delivery in this thread. One without a name is a dead letter. What the program
   * itself has wrong fails the run, and so does a client that is closed. The thread is not
   * interrupted afterwards.
   *
   * @param name names it
   * @param body its raw body
   * @param gone whether it may not begin any more; asked again once the claim is granted
   * @param handler has the effect
   * @return what to do with it
   */
  public Verdict process(Supplier<Named> name, byte[] body, BooleanSupplier gone, Handler handler) {
    if (gone.getAsBoolean()) {
      return Verdict.NOT_BEGUN;
    }
    AtomicBoolean givenBack = new AtomicBoolean();
    try {
      Named named = Objects.requireNonNull(name.get(), "the name of a delivery");
      Delivery delivery =
          Delivery.of(named.key()).withBody(body).withOccurredAt(named.occurredAt());
      Outcome outcome =
          ledger.process(
              delivery,
              claim -> {
                if (gone.getAsBoolean()) { // The claim has waited for the ledger.
                  givenBack.set(true);
                  throw new GiveBack();
                }
                return handler.handle(claim);
              });
      return givenBack.get() ? Verdict.NOT_BEGUN : verdict(outcome);
    } catch (NoIdException e) {
      log.error("a message is dead-lettered", e.getMessage());
      return new Verdict(Kind.DEAD_LETTER, Duration.ZERO, NO_ID);
    } catch (Throwable e) { // Of the program's own functions, or that the client is closed.
      fail(e);
      return Verdict.NOT_BEGUN;
    } finally {
      Thread.interrupted();
    }
  }

  private static Verdict verdict(Outcome outcome) {
    Kind kind =
        switch (outcome.advice()) {
          case ACK -> Kind.ACK;
          case RETRY_LATER -> Kind.RETRY_LATER;
          case DEAD_LETTER -> Kind.DEAD_LETTER;
        };
    return new Verdict(kind, outcome.delay(), outcome.reason().orElse(""));
  }

  /**
   * Ends the run with an error; the first one counts.
   *
   * @param error what {@link #failure()} returns from now on
   */
  public void fail(Throwable error) {
    failure.compareAndSet(null, error);
  }

  /**
   * What has ended the run.
   *
   * @return the error; null where there is none
   */
  public Throwable failure() {
    return failure.get();
  }
}
