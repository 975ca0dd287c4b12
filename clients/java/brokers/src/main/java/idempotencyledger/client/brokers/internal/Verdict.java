package idempotencyledger.client.brokers.internal;

import java.time.Duration;

/**
 * What to do with a delivery.
 *
 * @param kind what to do
 * @param delay at least how long to wait, with {@link Kind#RETRY_LATER}; else zero
 * @param reason why, for a dead letter; empty where there is none
 */
public record Verdict(Kind kind, Duration delay, String reason) {
  /** What to do. */
  public enum Kind {
    /** It is done. */
    ACK,
    /** It is delivered again after the delay. */
    RETRY_LATER,
    /** A copy is stored for people, and it is done. */
    DEAD_LETTER,
    /** Nothing was done with it: it is given back without a delay. */
    NOT_BEGUN
  }

  static final Verdict NOT_BEGUN = new Verdict(Kind.NOT_BEGUN, Duration.ZERO, "");
}
