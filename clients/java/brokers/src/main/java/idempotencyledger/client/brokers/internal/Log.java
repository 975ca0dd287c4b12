package idempotencyledger.client.brokers.internal;

import java.lang.System.Logger.Level;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** The log of one adapter: at most a line a second of each kind. */
public final class Log {
  private static final System.Logger LOG = System.getLogger("idempotencyledger");
  private static final long EVERY = TimeUnit.SECONDS.toNanos(1);

  private final String place;
  private final Map<String, Last> last = new ConcurrentHashMap<>();

  /** When the last line of a kind was logged, and how many were not logged since. */
  private record Last(long at, int suppressed, boolean logged) {}

  /**
   * The log of an adapter.
   *
   * @param place where its deliveries come from, such as {@code topic orders}
   */
  public Log(String place) {
    this.place = place;
  }

  /**
   * Logs what may pass by itself.
   *
   * @param kind what has happened; one of few texts
   * @param detail why; neither it nor the kind may have a payload or an id
   */
  public void warn(String kind, String detail) {
    log(Level.WARNING, kind, detail);
  }

  /**
   * Logs what an operator must see to.
   *
   * @param kind what has happened; one of few texts
   * @param detail why; neither it nor the kind may have a payload or an id
   */
  public void error(String kind, String detail) {
    log(Level.ERROR, kind, detail);
  }

  private void log(Level level, String kind, String detail) {
    long now = System.nanoTime();
    Last kept =
        last.merge(
            kind,
            new Last(now, 0, true),
            (old, fresh) ->
                now - old.at() < EVERY
                    ? new Last(old.at(), (old.logged() ? 0 : old.suppressed()) + 1, false)
                    : new Last(now, old.logged() ? 0 : old.suppressed(), true));
    if (kept.logged()) {
      String more =
          kept.suppressed() > 0
              ? "; " + kept.suppressed() + " more of this kind were suppressed"
              : "";
      LOG.log(level, place + ": " + kind + ": " + detail + more);
    }
  }
}
