package idempotencyledger.client;

import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** The lines that the package logs until this is closed. */
public final class Lines implements AutoCloseable {
  public final List<String> lines = new ArrayList<>();
  private final Logger logger = Logger.getLogger("idempotencyledger");
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

  public Lines() {
    logger.addHandler(collecting);
    logger.setUseParentHandlers(false);
  }

  @Override
  public void close() {
    logger.removeHandler(collecting);
    logger.setUseParentHandlers(true);
  }
}
