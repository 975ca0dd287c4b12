package idempotencyledger.client.servlet;

/** What an answer says of the request's effect. */
public enum Rule {
  /** There was an effect, or the answer is final: a repeat gets this answer. */
  STORE,
  /**
   * There was none: the key may be used again, also with another body. Once announced, the answer
   * is stored.
   */
  RELEASE,
  /** It is unknown: a repeat runs again. Once announced, the request is parked for a person. */
  FAIL;

  /**
   * The default: 5xx fail; 400, 401, 403, 404, 409, 422 and 429 release; all others are stored.
   *
   * @param status the status of the answer
   * @return what it says
   */
  public static Rule of(int status) {
    if (status >= 500) {
      return FAIL;
    }
    return switch (status) {
      case 400, 401, 403, 404, 409, 422, 429 -> RELEASE;
      default -> STORE;
    };
  }
}
