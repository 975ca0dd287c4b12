package idempotencyledger.client;

import java.time.Duration;
import java.time.Instant;
import java.util.Optional;

/**
 * One delivery of a message, as the caller names it. Immutable: each {@code with} method makes
 * another one.
 */
public final class Delivery {
  private static final Duration LONGEST_WAIT = Duration.ofHours(1);

  private final Key key;
  private final Fingerprint fingerprint;
  private final Instant occurredAt;
  private final String eventType;
  private final Duration wait;

  private Delivery(
      Key key, Fingerprint fingerprint, Instant occurredAt, String eventType, Duration wait) {
    this.key = key;
    this.fingerprint = fingerprint;
    this.occurredAt = occurredAt;
    this.eventType = eventType;
    this.wait = wait;
  }

  /**
   * A delivery of a message, without a fingerprint and without a wait.
   *
   * @param key the message's name
   * @return the delivery
   * @throws InvalidFieldException where the key is null
   */
  public static Delivery of(Key key) {
    if (key == null) {
      throw new InvalidFieldException("key", "must not be null");
    }
    return new Delivery(key, null, null, "", Duration.ZERO);
  }

  /**
   * With the fingerprint of its body.
   *
   * @param body the broker's raw body, before any decoding
   * @return the delivery
   */
  public Delivery withBody(byte[] body) {
    return withFingerprint(Fingerprint.of(body));
  }

  /**
   * With a fingerprint.
   *
   * @param fingerprint the fingerprint; another body under the same key is then dead-lettered
   * @return the delivery
   */
  public Delivery withFingerprint(Fingerprint fingerprint) {
    return new Delivery(key, fingerprint, occurredAt, eventType, wait);
  }

  /**
   * With the instant at which the producer made the message. One that is older than what the ledger
   * remembers is dead-lettered, since it is unknown whether it was processed.
   *
   * @param occurredAt the instant
   * @return the delivery
   */
  public Delivery withOccurredAt(Instant occurredAt) {
    return new Delivery(key, fingerprint, occurredAt, eventType, wait);
  }

  /**
   * With the kind of the message, a label of the server's metrics.
   *
   * @param eventType such as the {@code type} of a CloudEvent; use few different ones
   * @return the delivery
   */
  public Delivery withEventType(String eventType) {
    return new Delivery(key, fingerprint, occurredAt, eventType, wait);
  }

  /**
   * Waits while another attempt holds the message, for callers who need its result. A broker's
   * consumer needs no wait.
   *
   * @param wait 0 s to an hour; the server bounds it further, to 10 s by default
   * @return the delivery
   * @throws InvalidFieldException where it is not within these bounds
   */
  public Delivery withWait(Duration wait) {
    if (wait.isNegative() || wait.compareTo(LONGEST_WAIT) > 0) {
      throw new InvalidFieldException(
          "wait", wait + " is not within 0 s and an hour; the server bounds it further");
    }
    return new Delivery(key, fingerprint, occurredAt, eventType, wait);
  }

  Key key() {
    return key;
  }

  Optional<Fingerprint> fingerprint() {
    return Optional.ofNullable(fingerprint);
  }

  Optional<Instant> occurredAt() {
    return Optional.ofNullable(occurredAt);
  }

  String eventType() {
    return eventType;
  }

  Duration longestWait() {
    return wait;
  }
}
