package idempotencyledger.client;

/**
 * It is unknown whether the effect happened, and the next attempt finds out by itself, as with a
 * guard row.
 *
 * <p>Nothing is settled: the lease ends by itself, and the next attempt finds {@link
 * Claim#effectUnknown()}.
 */
public class Doubtful extends Steer {
  private static final long serialVersionUID = 1L;

  /** The reason is {@code DOUBTFUL}. */
  public Doubtful() {
    super(null, null);
  }

  /**
   * With a reason.
   *
   * @param reason why; it is not sent, since nothing is
   */
  public Doubtful(String reason) {
    super(reason, null);
  }

  /**
   * With a reason and the error behind it.
   *
   * @param reason why; it is not sent, since nothing is
   * @param cause the error behind it, for the application's log
   */
  public Doubtful(String reason, Throwable cause) {
    super(reason, cause);
  }
}
