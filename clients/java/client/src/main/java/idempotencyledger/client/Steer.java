package idempotencyledger.client;

import java.util.Optional;

/**
 * The base of what a handler throws to say how its attempt ended.
 *
 * <p>The reason is sent to the ledger and shown to operators (at most 2,000 characters, longer is
 * cut): put no payload and no secret there. Without a reason the name of the class is sent. These
 * errors have no stack trace: they are answers.
 */
public abstract class Steer extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The reason that was given, or null. */
  private final String reason;

  Steer(String reason, Throwable cause) {
    super(reason, cause, true, false);
    this.reason = reason;
  }

  /**
   * The reason that was given.
   *
   * @return the reason, for operators; empty where none was given
   */
  public Optional<String> reason() {
    return Optional.ofNullable(reason);
  }
}
