package idempotencyledger.client;

/**
 * A person must look at the message. Also right where it is unknown whether the effect happened.
 */
public class Park extends Steer {
  private static final long serialVersionUID = 1L;

  /** The reason is the name of the class. */
  public Park() {
    super(null, null);
  }

  /**
   * With a reason.
   *
   * @param reason why, for operators: no payload, no secret
   */
  public Park(String reason) {
    super(reason, null);
  }
}
