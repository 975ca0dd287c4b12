package idempotencyledger.client;

/**
 * The guard row is that of another message, has no result, or is gone: something else writes the
 * table, names are cut or folded, or the effect has ended the guard's transaction. Nothing is
 * settled; stop, and let a person look.
 */
public final class WrongRow extends Doubtful {
  private static final long serialVersionUID = 1L;

  WrongRow(String reason) {
    super(reason);
  }
}
