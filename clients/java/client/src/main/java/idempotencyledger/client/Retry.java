package idempotencyledger.client;

import java.time.Duration;
import java.util.Optional;

/** The effect certainly did not happen, and another attempt may succeed. */
public class Retry extends Steer {
  private static final long serialVersionUID = 1L;
  private static final Duration LONGEST = Duration.ofDays(30);

  /** When the next attempt is due; null: the policy says it. */
  private final Duration after;

  /** The next attempt is due after the back-off of the consumer's policy. */
  public Retry() {
    this(null, null, null);
  }

  /**
   * The next attempt is due after the back-off of the consumer's policy.
   *
   * @param reason why, for operators: no payload, no secret
   */
  public Retry(String reason) {
    this(reason, null, null);
  }

  /**
   * The next attempt is due after this time.
   *
   * @param after 0 s to 30 days
   * @throws InvalidFieldException where it is not within these bounds
   */
  public Retry(Duration after) {
    this(null, after, null);
  }

  /**
   * The next attempt is due after this time.
   *
   * @param reason why, for operators: no payload, no secret
   * @param after 0 s to 30 days
   * @throws InvalidFieldException where it is not within these bounds
   */
  public Retry(String reason, Duration after) {
    this(reason, after, null);
  }

  /**
   * The next attempt is due after this time.
   *
   * @param reason why, for operators: no payload, no secret; null: the name of the class
   * @param after 0 s to 30 days; null: the back-off of the consumer's policy
   * @param cause the error behind it, for the application's log, or null
   * @throws InvalidFieldException where {@code after} is not within these bounds
   */
  public Retry(String reason, Duration after, Throwable cause) {
    super(reason, cause);
    if (after != null && (after.isNegative() || after.compareTo(LONGEST) > 0)) {
      throw new InvalidFieldException("retry_after", after + " is not within 0 s and 30 days");
    }
    this.after = after;
  }

  /**
   * When the next attempt is due.
   *
   * @return the time from now; empty: the back-off of the consumer's policy
   */
  public Optional<Duration> after() {
    return Optional.ofNullable(after);
  }
}
