package idempotencyledger.client;

import idempotencyledger.client.internal.LimitedLog;
import java.lang.System.Logger.Level;

/**
 * The log of one consumer: at most a line a second of each kind, without payloads, keys, tokens and
 * texts of errors.
 */
final class Report {
  private final LimitedLog log;

  Report(String consumer) {
    log = new LimitedLog(consumer);
  }

  /**
   * Logs a call that was refused or not answered, an error of a handler that does not steer, and
   * one of the guard.
   */
  void outcome(Outcome outcome) {
    if (!outcome.detail().isEmpty()) {
      String reason = outcome.reason().orElse("");
      warn(reason, reason + ": " + outcome.detail() + ": " + outcome.advice());
    }
    outcome
        .error()
        .filter(error -> !(error instanceof Steer) || ofGuard(error))
        // The fault of a key is logged above.
        .filter(error -> !outcome.detail().equals(error.getMessage()))
        .ifPresent(
            error -> {
              String name = error.getClass().getName();
              String text = own(error);
              // One class of the guard is for many errors of a database or an effect.
              String kind = ofGuard(error) ? name + text : name;
              warn(kind, name + " was thrown" + text + ": " + outcome.advice());
            });
  }

  /** The message is delivered again and again while no person mends the cause. */
  private static boolean ofGuard(Throwable error) {
    return error instanceof Undecided || error instanceof WrongRow || error instanceof RolledBack;
  }

  /** The text of an error that this package has made, which quotes nothing of a message. */
  private static String own(Throwable error) {
    boolean own =
        ofGuard(error)
            || error instanceof InvalidFieldException
            || error instanceof NotProtectedException;
    return own ? " (" + error.getMessage() + ")" : "";
  }

  void warn(String kind, String what) {
    log.log(Level.WARNING, kind, what);
  }
}
