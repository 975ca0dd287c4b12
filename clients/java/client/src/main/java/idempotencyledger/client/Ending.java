package idempotencyledger.client;

/** How a handler has ended. */
sealed interface Ending {
  /** What the handler threw; null where it ended well. */
  default Throwable error() {
    return null;
  }

  /**
   * Its effect happened.
   *
   * @param leftOut the effect had a result, which cannot be stored and is left out
   */
  record Done(byte[] result, boolean leftOut) implements Ending {
    /** With what a handler has returned. */
    static Done of(byte[] result) {
      return new Done(result == null ? new byte[0] : result.clone(), false);
    }

    static Done withoutResult() {
      return new Done(new byte[0], true);
    }
  }

  /**
   * It has thrown an error.
   *
   * @param interrupted the thread of the handler was interrupted, so that the error says nothing of
   *     the effect
   */
  record Thrown(Throwable error, boolean interrupted) implements Ending {}
}
