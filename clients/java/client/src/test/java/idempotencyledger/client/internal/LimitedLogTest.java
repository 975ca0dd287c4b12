package idempotencyledger.client.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;

import idempotencyledger.client.Lines;
import java.lang.System.Logger.Level;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class LimitedLogTest {
  private final AtomicLong now = new AtomicLong(Long.MAX_VALUE); // The clock may pass its end.
  private final LimitedLog log = new LimitedLog("topic orders", now::get);

  private void round(int lines) {
    for (int at = 0; at < lines; at++) {
      log.log(Level.WARNING, "LOST", "a connection is lost");
    }
    now.addAndGet(TimeUnit.SECONDS.toNanos(1));
  }

  @Test
  void line_reports_the_lines_suppressed_since_the_one_before_it() {
    try (Lines logged = new Lines()) {
      round(6);
      round(3);
      round(1);
      round(1);
      String line = "topic orders: a connection is lost";
      assertEquals(
          List.of(
              line,
              line + "; 5 more of this kind were suppressed",
              line + "; 2 more of this kind were suppressed",
              line),
          logged.lines);
    }
  }

  @Test
  void kinds_are_limited_separately() {
    try (Lines logged = new Lines()) {
      log.log(Level.WARNING, "LOST", "lost");
      log.log(Level.ERROR, "LATE", "late");
      assertEquals(List.of("topic orders: lost", "topic orders: late"), logged.lines);
    }
  }
}
