package idempotencyledger.client;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * The log of one consumer: at most a line a second of each kind, without payloads, keys, tokens and
 * texts of errors.
 */
final class Report {
  private static final Logger LOG = System.getLogger("idempotencyledger");
  private static final long EVERY = TimeUnit.SECONDS.toNanos(1);

  /** Kinds are reasons and types of errors: few. A bound all the same. */
  private static final int MOST_KINDS = 200;

  private final String consumer;
  private final Map<String, Last> last = new ConcurrentHashMap<>();

  private record Last(long at, int suppressed, boolean logged) {}

  Report(String consumer) {
    this.consumer = consumer;
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
    if (last.size() > MOST_KINDS) {
      last.clear();
    }
    long now = System.nanoTime();
    Last kept =
        last.merge(
            kind,
            new Last(now, 0, true),
            (old, fresh) ->
                now - old.at() < EVERY
                    ? new Last(old.at(), old.suppressed() + 1, false)
                    : new Last(now, -old.suppressed(), true));
    if (kept.logged()) {
      int suppressed = -kept.suppressed();
      LOG.log(
          Level.WARNING,
          consumer
              + ": "
              + what
              + (suppressed > 0 ? "; " + suppressed + " more of this kind were suppressed" : ""));
    }
  }
}
