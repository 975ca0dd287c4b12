package idempotencyledger.client;

/**
 * The ledger has not confirmed the announcement, so the effect must not start. Let this error pass:
 * it is a {@link Retry}.
 */
public final class AnnouncementFailedException extends Retry {
  private static final long serialVersionUID = 1L;

  AnnouncementFailedException(String reason) {
    super("the announcement is not confirmed: " + reason);
  }
}
