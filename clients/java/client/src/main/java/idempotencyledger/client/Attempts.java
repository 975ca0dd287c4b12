package idempotencyledger.client;

import java.util.OptionalLong;
import java.util.concurrent.TimeUnit;

/** How a call is repeated: the identical request, with jittered back-off, within a budget. */
final class Attempts {
  private static final long FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);
  private static final long LONGEST_PAUSE = TimeUnit.SECONDS.toNanos(1);
  private static final long SHORTEST_TRY = TimeUnit.MILLISECONDS.toNanos(50);

  private final World world;
  private final long until;
  private final long timeout;
  private long pause = FIRST_PAUSE;
  private boolean repeat;

  /**
   * Begins the budget of a call.
   *
   * @param budget nanoseconds that the call and its repeats may take
   * @param timeout nanoseconds that each try may take
   */
  Attempts(World world, long budget, long timeout) {
    this.world = world;
    this.until = world.now() + budget;
    this.timeout = timeout;
  }

  /** Nanoseconds that the try which begins now may take. */
  long timeout() {
    return Math.max(SHORTEST_TRY, Math.min(timeout, until - world.now()));
  }

  /**
   * The try is a repeat: it waits for a connection until its deadline, rather than fail without
   * one.
   */
  boolean repeat() {
    return repeat;
  }

  /**
   * Nanoseconds until the next try; empty where no repeat changes the answer, or no time is left
   * for one.
   */
  OptionalLong pauseAfter(Failure failure) {
    // With jitter: clients that were refused together, and repeated together, would only be refused
    // again.
    long jittered = (long) (pause * (0.5 + world.random().getAsDouble() / 2));
    long wait = Math.max(failure.retryAfter(), jittered);
    if (!failure.repeatable() || world.now() + wait >= until) {
      return OptionalLong.empty();
    }
    pause = Math.min(pause * 2, LONGEST_PAUSE);
    repeat = true;
    return OptionalLong.of(wait);
  }
}
