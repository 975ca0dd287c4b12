package idempotencyledger.client;

/**
 * The effect certainly did not happen, and no attempt will ever succeed: the message is
 * dead-lettered.
 */
public class Terminal extends Steer {
  private static final long serialVersionUID = 1L;

  /** The reason is the name of the class. */
  public Terminal() {
    super(null, null);
  }

  /**
   * With a reason.
   *
   * @param reason why, for operators: no payload, no secret
   */
  public Terminal(String reason) {
    super(reason, null);
  }
}
