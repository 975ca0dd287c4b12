package idempotencyledger.client.internal;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;

/**
 * The rate limit of the client's log: at most a line a second of each kind, with the number of
 * lines that were suppressed before it.
 *
 * <p>It is public for the adapters of brokers, which log by the same limit, and for no application.
 */
public final class LimitedLog {
  private static final Logger LOG = System.getLogger("idempotencyledger");
  private static final long EVERY = TimeUnit.SECONDS.toNanos(1);

  /** Kinds are reasons and types of errors: few. A bound all the same. */
  private static final int MOST_KINDS = 200;

  private final String place;
  private final LongSupplier clock;
  private final Map<String, Last> last = new ConcurrentHashMap<>();

  /**
   * The line of a kind that is logged, or the suppressed ones after it.
   *
   * @param at when the last line was logged, in nanoseconds
   * @param suppressed the number of lines that were suppressed: before this line, or since it
   * @param logged whether this line is logged
   */
  private record Last(long at, int suppressed, boolean logged) {}

  /**
   * The log of a consumer or of a place of deliveries.
   *
   * @param place what each line begins with, such as {@code topic orders}
   */
  public LimitedLog(String place) {
    this(place, System::nanoTime);
  }

  LimitedLog(String place, LongSupplier clock) {
    this.place = place;
    this.clock = clock;
  }

  /**
   * Logs a line, unless one of its kind was logged within the last second.
   *
   * @param level the level
   * @param kind the kind; one of few texts
   * @param text the line, without payloads, keys, tokens and texts of errors of others
   */
  public void log(Level level, String kind, String text) {
    if (last.size() > MOST_KINDS) {
      last.clear();
    }
    long now = clock.getAsLong();
    Last kept = last.merge(kind, new Last(now, 0, true), (old, fresh) -> after(old, now));
    if (kept.logged()) {
      String more =
          kept.suppressed() > 0
              ? "; " + kept.suppressed() + " more of this kind were suppressed"
              : "";
      LOG.log(level, place + ": " + text + more);
    }
  }

  private static Last after(Last old, long now) {
    int suppressed = old.logged() ? 0 : old.suppressed();
    return now - old.at() < EVERY
        ? new Last(old.at(), suppressed + 1, false)
        : new Last(now, suppressed, true);
  }
}
