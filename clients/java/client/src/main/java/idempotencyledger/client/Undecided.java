package idempotencyledger.client;

/**
 * It is unknown here whether the guarded effect happened, and the next attempt learns it from the
 * guard. Let it pass: nothing is settled, and the message is delivered again.
 */
public final class Undecided extends Doubtful {
  private static final long serialVersionUID = 1L;

  Undecided(String reason, Throwable cause) {
    super(reason, cause);
  }
}
