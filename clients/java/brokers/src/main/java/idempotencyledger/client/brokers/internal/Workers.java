package idempotencyledger.client.brokers.internal;

import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BooleanSupplier;
import java.util.function.IntConsumer;

/**
 * The loop of a run that asks its broker for messages, and the threads that process them, one for
 * each message that is processed at the same time.
 */
public final class Workers {
  private static final long ASK = 100; // ms: a request to stop is noticed after it

  private final Deliveries deliveries;
  private final int concurrency;
  private final ExecutorService threads;

  /** Messages that have begun and not ended. The lock of this object guards it. */
  private int running;

  private volatile boolean stopping;
  private volatile boolean interrupted;

  /**
   * The threads of one run.
   *
   * @param name the name of each thread
   * @param concurrency how many messages are processed at the same time
   * @param deliveries what may end the run
   */
  public Workers(String name, int concurrency, Deliveries deliveries) {
    this.deliveries = deliveries;
    this.concurrency = concurrency;
    threads = Executors.newFixedThreadPool(concurrency, work -> thread(name, work));
  }

  /**
   * A thread that does not keep the process from ending.
   *
   * @param name its name
   * @param work what it does
   * @return the thread
   */
  public static Thread thread(String name, Runnable work) {
    Thread thread = new Thread(work, name);
    thread.setDaemon(true);
    return thread;
  }

  /**
   * Takes messages until the run ends, by {@code stop}, an interrupt of this thread or a failure;
   * then waits for those that have begun. A thread that was interrupted is interrupted afterwards.
   *
   * @param stop asked between two calls of {@code take}
   * @param take given how many messages may begin; it begins that number of messages at most
   * @param grace how long to wait for what runs
   */
  public void run(BooleanSupplier stop, IntConsumer take, Duration grace) {
    try {
      while (!wasInterrupted() && deliveries.failure() == null && !stop.getAsBoolean()) {
        int free = free();
        if (free > 0) {
          take.accept(free);
        } else {
          await(ASK);
        }
      }
    } catch (RuntimeException e) { // Of `stop`.
      deliveries.fail(e);
    } finally {
      stopping = true;
      threads.shutdown();
      long end = System.nanoTime() + grace.toNanos();
      while (running() > 0 && System.nanoTime() - end < 0) {
        await(ASK);
      }
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** An answer of a broker is awaited without noticing an interrupt, which only sets the flag. */
  private boolean wasInterrupted() {
    if (Thread.interrupted()) {
      interrupted = true;
    }
    return interrupted;
  }

  /**
   * Begins a message in a thread. What it throws ends the run.
   *
   * @param work processes the message
   */
  public void begin(Runnable work) {
    synchronized (this) {
      running++;
    }
    threads.execute(
        () -> {
          try {
            work.run();
          } catch (RuntimeException | Error e) {
            deliveries.fail(e);
          } finally {
            ended();
          }
        });
  }

  private synchronized void ended() {
    running--;
    notifyAll();
  }

  /**
   * Whether the run ends: what has not begun may not begin any more.
   *
   * @return whether it does
   */
  public boolean stopping() {
    return stopping;
  }

  /**
   * How many messages have begun and not ended.
   *
   * @return the number
   */
  public synchronized int running() {
    return running;
  }

  private synchronized int free() {
    return concurrency - running;
  }

  /**
   * Waits until a message has ended.
   *
   * @param most how many milliseconds to wait at most
   */
  public synchronized void await(long most) {
    try {
      wait(most);
    } catch (InterruptedException e) {
      interrupted = true;
    }
  }

  /** The run ends in good order, and its thread is interrupted after that. */
  public void interrupt() {
    Thread.interrupted();
    interrupted = true;
  }
}
