package idempotencyledger.client;

/**
 * A guarded effect has thrown this error's cause and was rolled back. A separate class, since it is
 * logged, and a {@link Retry} that the application has chosen is not.
 */
final class RolledBack extends Retry {
  private static final long serialVersionUID = 1L;

  RolledBack(Exception cause) {
    super(Course.typeName(cause), null, cause);
  }
}
