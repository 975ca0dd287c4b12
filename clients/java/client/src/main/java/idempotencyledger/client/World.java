package idempotencyledger.client;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import java.util.function.LongConsumer;
import java.util.function.LongSupplier;

/**
 * What the rules know of the world, and how long they may try. All times are nanoseconds.
 *
 * @param clock a clock that never goes back, from 0 on
 * @param random a number from 0 to 1
 * @param sleeper waits for a number of nanoseconds, whether the thread is interrupted or not
 * @param callTimeout how long one try of a call may take
 * @param claimBudget how long a Claim and its repeats may take, besides its {@code wait}
 * @param settleBudget how long a settlement and its repeats may take
 */
record World(
    LongSupplier clock,
    DoubleSupplier random,
    LongConsumer sleeper,
    long callTimeout,
    long claimBudget,
    long settleBudget) {
  private static final long ORIGIN = System.nanoTime();

  /** The world of a running program. */
  static World real() {
    return new World(
        () -> System.nanoTime() - ORIGIN,
        () -> ThreadLocalRandom.current().nextDouble(),
        Waiting::sleep,
        TimeUnit.SECONDS.toNanos(5),
        TimeUnit.SECONDS.toNanos(10),
        TimeUnit.SECONDS.toNanos(20));
  }

  long now() {
    return clock.getAsLong();
  }
}
