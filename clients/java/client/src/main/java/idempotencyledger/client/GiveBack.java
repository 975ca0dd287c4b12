package idempotencyledger.client;

import java.time.Duration;

/** Nothing was begun: the claim is released, and the attempt does not count. */
public class GiveBack extends Steer {
  private static final long serialVersionUID = 1L;

  /** When the key is claimable again. */
  private final Duration after;

  /** Whether a corrected message may use the key. */
  private final boolean unpinFingerprint;

  /** The key is claimable again immediately. */
  public GiveBack() {
    this(null, Duration.ZERO, false);
  }

  /**
   * The key is claimable again after a time.
   *
   * @param reason why; it is not sent. Null: the name of the class
   * @param after from 0 s on; the ledger takes more than 30 days as 30 days
   * @param unpinFingerprint true: a corrected message with another body may use the same key
   * @throws InvalidFieldException where {@code after} is negative
   */
  public GiveBack(String reason, Duration after, boolean unpinFingerprint) {
    super(reason, null);
    if (after.isNegative()) {
      throw new InvalidFieldException("delay", after + " is negative");
    }
    this.after = after;
    this.unpinFingerprint = unpinFingerprint;
  }

  /**
   * When the key is claimable again.
   *
   * @return the time from now
   */
  public Duration after() {
    return after;
  }

  /**
   * Whether a corrected message with another body may use the same key.
   *
   * @return true where it may
   */
  public boolean unpinFingerprint() {
    return unpinFingerprint;
  }
}
