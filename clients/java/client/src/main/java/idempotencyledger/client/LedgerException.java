package idempotencyledger.client;

/** The base of what this package throws by itself. */
public class LedgerException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes an error.
   *
   * @param message what is wrong, without payloads, keys and tokens
   */
  protected LedgerException(String message) {
    super(message);
  }
}
