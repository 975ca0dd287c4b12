package idempotencyledger.client.camel;

import idempotencyledger.client.Advice;
import idempotencyledger.client.Claim;
import idempotencyledger.client.Delivery;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.UndecidedDeliveryException;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.camel.Exchange;
import org.apache.camel.spi.IdempotentRepository;

/**
 * A repository for {@code idempotentConsumer(…).idempotentRepository(…)}, eager as by default: a
 * message is claimed before its route and completed after it, and its lease is renewed meanwhile.
 *
 * <p>What it cannot promise, since the interface carries no token: a route whose claim is lost does
 * not learn it, and its effect is fenced only where the route takes the {@link Claim} out of the
 * property {@link #CLAIM} of the exchange, and hands its token or idempotency key on. Without them
 * a process that dies between its effect and its completion has the effect again; with {@link
 * Ledger#process} and a guard it has not. Results are not stored.
 *
 * <p>A route that fails removes its key: its claim then ends as {@link
 * idempotencyledger.client.LedgerBuilder#unexpected} says, by default parked. With {@code RETRY}
 * another delivery runs the route again, which is right only where no error can follow its effect.
 */
public final class LedgerIdempotentRepository implements IdempotentRepository {
  /** The property of an exchange with its {@link Claim}. */
  public static final String CLAIM = "IdempotencyLedgerClaim";

  private final Ledger ledger;
  private final String source;
  private final Map<String, Claim> held = new ConcurrentHashMap<>();

  /**
   * Makes a repository.
   *
   * @param ledger the client; close it when the application ends
   * @param source what the keys belong to, 1 to 256 bytes of UTF-8
   */
  public LedgerIdempotentRepository(Ledger ledger, String source) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.source = Objects.requireNonNull(source, "source");
  }

  @Override
  public boolean add(Exchange exchange, String key) {
    boolean added = add(key);
    if (added) {
      exchange.setProperty(CLAIM, held.get(key));
    }
    return added;
  }

  /**
   * Claims a message.
   *
   * @param key its key, 1 to 512 bytes of UTF-8
   * @return true: it is claimed, and its route runs; false: it was completed before
   * @throws InvalidFieldException where the key is not allowed
   * @throws UndecidedDeliveryException where it is neither: held by another attempt, parked, or the
   *     ledger cannot be reached
   */
  @Override
  public boolean add(String key) {
    Key named = Key.of(source, key);
    named
        .fault()
        .ifPresent(
            fault -> {
              throw fault;
            });
    Claim claim = ledger.claim(Delivery.of(named));
    if (claim.granted()) {
      held.put(key, claim);
      return true;
    }
    Outcome outcome = claim.outcome();
    if (outcome.advice() == Advice.ACK) {
      return false;
    }
    throw new UndecidedDeliveryException(outcome);
  }

  /**
   * Completes a message: its route has ended well.
   *
   * @param key its key
   * @return true where the ledger has confirmed it; else a repeat of the message decides
   */
  @Override
  public boolean confirm(String key) {
    Claim claim = held.remove(key);
    if (claim == null) {
      return false;
    }
    try (claim) {
      return claim.complete(null).advice() == Advice.ACK;
    }
  }

  /**
   * Ends the claim of a message: its route has failed.
   *
   * @param key its key
   * @return true where it was claimed here
   */
  @Override
  public boolean remove(String key) {
    Claim claim = held.remove(key);
    if (claim != null) {
      claim.close();
    }
    return claim != null;
  }

  /**
   * Not supported: only a claim says whether a message may be processed.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public boolean contains(String key) {
    throw new UnsupportedOperationException(
        "use an eager idempotentConsumer, which is the default");
  }

  /**
   * Not supported: what is done is never forgotten by a consumer.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public void clear() {
    throw new UnsupportedOperationException(
        "the ledger's retention says how long keys are remembered");
  }

  @Override
  public void start() {
    // The client connects with its first call.
  }

  @Override
  public void stop() {
    // The client is closed by the application, after its routes.
  }
}
