package idempotencyledger.client.brokers.internal;

import idempotencyledger.client.internal.LimitedLog;
import java.lang.System.Logger.Level;

/** The log of one adapter, by the rate limit of the client's. */
public final class Log {
  private final LimitedLog log;

  /**
   * The log of an adapter.
   *
   * @param place where its deliveries come from, such as {@code topic orders}
   */
  public Log(String place) {
    log = new LimitedLog(place);
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
    log.log(level, kind, kind + ": " + detail);
  }
}
