package idempotencyledger.client;

/** A call made idempotent has no value to return: {@link #outcome()} says why, and what to do. */
public final class NoResultException extends LedgerException {
  private static final long serialVersionUID = 1L;

  /** What became of the call. */
  private final transient Outcome outcome;

  NoResultException(Outcome outcome) {
    super("the call has no result: " + outcome);
    this.outcome = outcome;
  }

  /**
   * What became of the call.
   *
   * @return the outcome; null in an error that was serialised
   */
  public Outcome outcome() {
    return outcome;
  }
}
