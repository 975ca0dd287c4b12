package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class ReportTest {
  private final Logger logger = Logger.getLogger("idempotencyledger");
  private final List<String> lines = new ArrayList<>();
  private final Handler collecting =
      new Handler() {
        @Override
        public void publish(LogRecord line) {
          lines.add(line.getMessage());
        }

        @Override
        public void flush() {}

        @Override
        public void close() {}
      };

  @BeforeEach
  void collect() {
    logger.addHandler(collecting);
    logger.setUseParentHandlers(false);
  }

  @AfterEach
  void release() {
    logger.removeHandler(collecting);
    logger.setUseParentHandlers(true);
  }

  @Test
  void one_line_a_second_of_each_kind() {
    Report report = new Report("c");
    Outcome refused = Outcome.later(null).withReason("OVERLOADED", "the queue is full");
    for (int at = 0; at < 5; at++) {
      report.outcome(refused);
    }
    report.outcome(Outcome.later(null).withReason("DRAINING", "another server"));
    assertEquals(2, lines.size());
    assertTrue(lines.get(0).startsWith("c: OVERLOADED: the queue is full"), lines.get(0));
  }

  @Test
  void texts_of_errors_are_not_logged() {
    Report report = new Report("c");
    report.outcome(Outcome.later(null).withError(new IllegalStateException("card 4111")));
    report.outcome(Outcome.later(null).withError(new Retry("steers")));
    assertEquals(1, lines.size());
    assertFalse(lines.get(0).contains("4111"), lines.get(0));
    assertTrue(lines.get(0).contains("java.lang.IllegalStateException"), lines.get(0));
  }
}
