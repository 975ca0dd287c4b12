package idempotencyledger.client;

import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Runs short tasks later, one after the other. */
interface Timer {
  /** Runs the step after this time in nanoseconds. */
  Task after(long nanos, Runnable step);

  /** A step that is to come. */
  interface Task {
    /** Does not run the step, unless it has begun. */
    void cancel();
  }

  /**
   * One daemon thread for all clients of the process. It exists while a step is to come, and for a
   * second after.
   */
  static Timer shared() {
    return Shared.TIMER;
  }

  /** Holds the shared timer. */
  final class Shared {
    private static final Timer TIMER = make();

    private Shared() {}

    private static Timer make() {
      ScheduledThreadPoolExecutor executor =
          new ScheduledThreadPoolExecutor(
              1,
              task -> {
                Thread thread = new Thread(task, "idempotency-ledger-renewer");
                thread.setDaemon(true);
                // Not that of the application which happens to renew first: it could not be
                // unloaded.
                thread.setContextClassLoader(Timer.class.getClassLoader());
                return thread;
              });
      executor.setKeepAliveTime(1, TimeUnit.SECONDS);
      executor.allowCoreThreadTimeOut(true);
      executor.setRemoveOnCancelPolicy(true);
      return (nanos, step) -> {
        Future<?> task = executor.schedule(step, nanos, TimeUnit.NANOSECONDS);
        return () -> task.cancel(false);
      };
    }
  }
}
