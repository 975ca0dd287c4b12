package idempotencyledger.client;

/**
 * An adapter whose interface knows only "new" and "duplicate" can say neither: let the message be
 * delivered again or dead-lettered, by {@link #outcome()}. Neither answer would be right: as a
 * duplicate the message would be lost, as a new one it could have a second effect.
 */
public final class UndecidedDeliveryException extends LedgerException {
  private static final long serialVersionUID = 1L;

  /** What became of the delivery. */
  private final transient Outcome outcome;

  /**
   * Makes the error of a delivery.
   *
   * @param outcome what became of it
   */
  public UndecidedDeliveryException(Outcome outcome) {
    super("the message is neither new nor done: " + outcome);
    this.outcome = outcome;
  }

  /**
   * What became of the delivery, and what to do with the message.
   *
   * @return the outcome; null in an error that was serialised
   */
  public Outcome outcome() {
    return outcome;
  }
}
