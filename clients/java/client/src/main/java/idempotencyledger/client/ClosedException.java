package idempotencyledger.client;

/**
 * The ledger's client is closed, or closes: nothing was sent. Let the broker deliver the message
 * again.
 */
public final class ClosedException extends LedgerException {
  private static final long serialVersionUID = 1L;

  ClosedException() {
    super("the ledger's client is closed: let the broker deliver the message again");
  }
}
