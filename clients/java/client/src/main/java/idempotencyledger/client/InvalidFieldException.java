package idempotencyledger.client;

/** A field is beyond its bound; nothing was sent. */
public final class InvalidFieldException extends LedgerException {
  private static final long serialVersionUID = 1L;

  /** The name of the field. */
  private final String field;

  /**
   * Makes the error of a field.
   *
   * @param field its name as in the protobuf files, such as {@code key.source}
   * @param bound what is allowed
   */
  public InvalidFieldException(String field, String bound) {
    super(field + ": " + bound);
    this.field = field;
  }

  /**
   * The field at fault.
   *
   * @return its name as in the protobuf files, such as {@code key.source}
   */
  public String field() {
    return field;
  }
}
