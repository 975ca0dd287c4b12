package idempotencyledger.client.brokers.internal;

import idempotencyledger.client.Delivery;
import idempotencyledger.client.GiveBack;
import idempotencyledger.client.Handler;
import idempotencyledger.client.InboxMessage;
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
import java.util.function.Function;
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
    Handler guarded =
        claim -> {
          if (gone.getAsBoolean()) { // The claim has waited for the ledger.
            givenBack.set(true);
            throw new GiveBack();
          }
          return handler.handle(claim);
        };
    Verdict verdict = delivered(name, delivery -> ledger.process(delivery.withBody(body), guarded));
    return givenBack.get() ? Verdict.NOT_BEGUN : verdict;
  }

  /**
   * Stores a delivery in the inbox. What becomes of it otherwise is as of {@link #process}.
   *
   * @param name names it
   * @param message what is stored
   * @param gone whether it may not begin any more
   * @return what to do with it
   */
  public Verdict store(Supplier<Named> name, InboxMessage message, BooleanSupplier gone) {
    return gone.getAsBoolean()
        ? Verdict.NOT_BEGUN
        : delivered(name, delivery -> ledger.store(delivery, message));
  }

  private Verdict delivered(Supplier<Named> name, Function<Delivery, Outcome> call) {
    try {
      Named named = Objects.requireNonNull(name.get(), "the name of a delivery");
      return verdict(call.apply(Delivery.of(named.key()).withOccurredAt(named.occurredAt())));
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
   * @param error what {@link #failure()} returns from now on, and {@link #end} throws
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

  /**
   * Ends the run: returns where nothing has failed, and throws what has.
   *
   * @param <X> the checked exception of the broker's client
   * @param running how many handlers still run
   * @param grace how long the run has waited for them
   * @param checked the checked exception of the broker's client; a subclass of {@link
   *     RuntimeException} where it has none
   * @throws X what has ended the run
   * @throws IllegalStateException where handlers still run, and no other error has ended the run
   */
  public <X extends Exception> void end(int running, Duration grace, Class<X> checked) throws X {
    Throwable found = failure.get();
    if (running > 0) {
      IllegalStateException late =
          new IllegalStateException(
              running + " handlers still run " + grace + " after the request to stop");
      if (found == null) {
        throw late;
      }
      found.addSuppressed(late);
    }
    if (found instanceof Error error) {
      throw error;
    }
    if (found instanceof RuntimeException error) {
      throw error;
    }
    if (checked.isInstance(found)) {
      throw checked.cast(found);
    }
    if (found != null) { // A function of the program has thrown what it does not declare.
      throw new IllegalStateException("the run has failed", found);
    }
  }
}
