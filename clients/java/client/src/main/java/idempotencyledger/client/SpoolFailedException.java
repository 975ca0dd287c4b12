package idempotencyledger.client;

/**
 * The spool cannot be written, or not any more: an effect that it does not have must not begin.
 *
 * <p>After a write or a sync has failed, nothing more is written to the same file: what the system
 * has lost of it is not known. Mend the disk, and open another file.
 */
public final class SpoolFailedException extends LedgerException {
  private static final long serialVersionUID = 1L;

  SpoolFailedException(String message, Throwable cause) {
    super(message);
    initCause(cause);
  }
}
