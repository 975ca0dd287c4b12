package idempotencyledger.client;

/**
 * The checkpoint is larger than the server's bound (16 KiB by default): the earlier one stays
 * stored.
 */
public final class CheckpointDroppedException extends LedgerException {
  private static final long serialVersionUID = 1L;

  CheckpointDroppedException(String message) {
    super(message);
  }
}
