package idempotencyledger.client;

/** What an error of a handler means that is not a {@link Steer}. */
public enum Unexpected {
  /** A person looks: whether the effect happened is unknown. The default. */
  PARK,
  /** Another attempt: only where no error of the handler can follow its effect. */
  RETRY,
  /** Nothing is settled, and the next attempt finds out: only with a guard or a fence. */
  DOUBTFUL;

  Steer because(String reason) {
    return switch (this) {
      case PARK -> new Park(reason);
      case RETRY -> new Retry(reason);
      case DOUBTFUL -> new Doubtful(reason);
    };
  }
}
