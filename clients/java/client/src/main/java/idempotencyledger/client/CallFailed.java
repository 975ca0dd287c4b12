package idempotencyledger.client;

/** A call was refused, or its outcome is still unknown after all repeats. */
final class CallFailed extends Exception {
  private static final long serialVersionUID = 1L;
  private final transient Failure failure;

  CallFailed(Failure failure) {
    super(failure.name(), null, false, false);
    this.failure = failure;
  }

  Failure failure() {
    return failure;
  }
}
