package idempotencyledger.client.springintegration;

import idempotencyledger.client.Advice;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.UndecidedDeliveryException;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import org.springframework.integration.metadata.ConcurrentMetadataStore;

/**
 * A metadata store for {@code MetadataStoreSelector} and the idempotent receiver of Spring
 * Integration: of all messages with a key one passes.
 *
 * <p>What it cannot promise, since the interface has one call before the flow and none after it: a
 * message counts as done before its flow has begun, so that a process that dies in the flow has
 * lost it. The flow is given neither a token nor an idempotency key, nor is it protected by a
 * lease. Where an effect must happen, call {@link Ledger#process} in the flow instead.
 *
 * <p>What was stored is never changed: only {@link #putIfAbsent} is possible, which is all that a
 * {@code MetadataStoreSelector} without {@code compareValues} calls.
 */
public final class LedgerMetadataStore implements ConcurrentMetadataStore {
  private static final String UNSUPPORTED =
      "the ledger never changes what is done: use putIfAbsent, as MetadataStoreSelector does"
          + " without compareValues";

  private final Ledger ledger;
  private final String source;

  /**
   * Makes a store.
   *
   * @param ledger the client; close it when the application ends
   * @param source what the keys belong to, 1 to 256 bytes of UTF-8
   */
  public LedgerMetadataStore(Ledger ledger, String source) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.source = Objects.requireNonNull(source, "source");
  }

  /**
   * Stores a value under a key, once.
   *
   * @param key the message's key, 1 to 512 bytes of UTF-8
   * @param value the value, at most 16 KiB by default
   * @return null where this call has stored it; else the value that was stored before, empty where
   *     the ledger does not hand it out
   * @throws InvalidFieldException where the key is not allowed
   * @throws UndecidedDeliveryException where the ledger cannot be reached, or another call with
   *     this key is not done
   */
  @Override
  public String putIfAbsent(String key, String value) {
    Key named = Key.of(source, key);
    named
        .fault()
        .ifPresent(
            fault -> {
              throw fault;
            });
    Outcome outcome = ledger.process(named, claim -> value.getBytes(StandardCharsets.UTF_8));
    if (outcome.advice() != Advice.ACK) {
      throw new UndecidedDeliveryException(outcome);
    }
    return outcome.replayed()
        ? new String(outcome.result().orElse(new byte[0]), StandardCharsets.UTF_8)
        : null;
  }

  /**
   * Not supported.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public boolean replace(String key, String oldValue, String newValue) {
    throw new UnsupportedOperationException(UNSUPPORTED);
  }

  /**
   * Not supported.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public void put(String key, String value) {
    throw new UnsupportedOperationException(UNSUPPORTED);
  }

  /**
   * Not supported.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public String get(String key) {
    throw new UnsupportedOperationException(UNSUPPORTED);
  }

  /**
   * Not supported.
   *
   * @throws UnsupportedOperationException always
   */
  @Override
  public String remove(String key) {
    throw new UnsupportedOperationException(UNSUPPORTED);
  }
}
