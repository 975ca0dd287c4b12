package idempotencyledger.client;

/** The claim was not granted, or is not settled yet: look at {@link Claim#granted()} first. */
public final class NotGrantedException extends LedgerException {
  private static final long serialVersionUID = 1L;

  NotGrantedException(String message) {
    super(message);
  }
}
