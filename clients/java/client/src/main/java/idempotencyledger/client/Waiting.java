package idempotencyledger.client;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Bounded waits that an interrupt does not end: the thread finds itself interrupted afterwards. */
final class Waiting {
  private Waiting() {}

  /**
   * Waits for an answer, which has a deadline; runs {@code meanwhile} each second until it arrives.
   */
  static <T> T forAnswer(CompletableFuture<T> answer, Runnable meanwhile) throws CallFailed {
    boolean interrupted = false;
    try {
      while (true) {
        try {
          return answer.get(1, TimeUnit.SECONDS);
        } catch (InterruptedException e) {
          interrupted = true;
        } catch (TimeoutException e) {
          meanwhile.run();
        } catch (ExecutionException e) {
          if (e.getCause() instanceof CallFailed failed) {
            throw failed;
          }
          throw new IllegalStateException(e.getCause());
        }
      }
    } finally {
      restore(interrupted);
    }
  }

  /** Waits for a number of nanoseconds. */
  static void sleep(long nanos) {
    boolean interrupted = false;
    long until = System.nanoTime() + nanos;
    for (long left = nanos; left > 0; left = until - System.nanoTime()) {
      try {
        TimeUnit.NANOSECONDS.sleep(left);
      } catch (InterruptedException e) {
        interrupted = true;
      }
    }
    restore(interrupted);
  }

  private static void restore(boolean interrupted) {
    if (interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
