package idempotencyledger.client;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** Counts the deliveries that are under way, so that a close can wait for them. */
final class Inflight {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition ended = lock.newCondition();
  private int count;
  private boolean closing;

  /** A delivery begins; false where none is taken any more, unless it is always counted. */
  boolean enter(boolean always) {
    lock.lock();
    try {
      boolean taken = always || !closing;
      if (taken) {
        count++;
      }
      return taken;
    } finally {
      lock.unlock();
    }
  }

  void leave() {
    lock.lock();
    try {
      count--;
      ended.signalAll();
    } finally {
      lock.unlock();
    }
  }

  boolean closing() {
    lock.lock();
    try {
      return closing;
    } finally {
      lock.unlock();
    }
  }

  /**
   * Takes no new delivery, and waits for those that run. False where some still run after the
   * grace, or the thread is interrupted, as it stays.
   */
  boolean close(long graceNanos) {
    lock.lock();
    try {
      closing = true;
      long left = graceNanos;
      while (count > 0 && left > 0) {
        left = ended.awaitNanos(left);
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } finally {
      lock.unlock();
    }
    return idle();
  }

  private boolean idle() {
    lock.lock();
    try {
      return count == 0;
    } finally {
      lock.unlock();
    }
  }

  static long nanos(java.time.Duration grace) {
    return grace.compareTo(java.time.Duration.ofDays(1)) > 0
        ? TimeUnit.DAYS.toNanos(1)
        : grace.toNanos();
  }
}
