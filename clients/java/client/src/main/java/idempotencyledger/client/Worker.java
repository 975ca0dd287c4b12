package idempotencyledger.client;

import idempotencyledger.client.Inbox.Handout;
import idempotencyledger.client.WorkQueue.Item;
import idempotencyledger.client.proto.ClaimNextRequest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BooleanSupplier;

/**
 * Processes the messages of the inbox: {@code ledger.worker(handler).concurrency(8).run(stop)}.
 *
 * <p>At most {@link #concurrency} handlers run at the same time, and never two of one message. A
 * message that waits here for a handler is renewed. A message whose lease ran out twice in a row
 * runs alone within this worker: it may have killed the earlier processes.
 *
 * <p>A worker runs once: make another worker for another run.
 */
public final class Worker {
  private static final int CONCURRENCY_MAX = 1000;
  private static final long LOOK = 50; // ms between two looks at whether to stop
  private static final Duration LEASE = Duration.ofSeconds(30);

  private final Ledger ledger;
  private final StoredMessageHandler handler;
  private final Object lock = new Object();
  private final AtomicBoolean begun = new AtomicBoolean();
  private int concurrency = 1;
  private Duration grace = Duration.ofSeconds(20);
  private WorkQueue queue;
  private BooleanSupplier asked = () -> false;
  private boolean over;
  private volatile boolean stopped;
  private volatile Throwable failure;

  Worker(Ledger ledger, StoredMessageHandler handler) {
    this.ledger = ledger;
    this.handler = handler;
  }

  /**
   * How many handlers run at the same time, each in its own thread.
   *
   * @param concurrency 1 to 1000; 1 by default
   * @return this
   * @throws InvalidFieldException where it is not within these bounds
   */
  public Worker concurrency(int concurrency) {
    if (concurrency < 1 || concurrency > CONCURRENCY_MAX) {
      throw new InvalidFieldException(
          "concurrency", "is " + concurrency + "; 1 to " + CONCURRENCY_MAX + " are allowed");
    }
    this.concurrency = concurrency;
    return this;
  }

  /**
   * How long {@link #run} waits at the end for its Releases and for handlers that run.
   *
   * @param grace 20 s by default
   * @return this
   */
  public Worker grace(Duration grace) {
    this.grace = Objects.requireNonNull(grace, "grace");
    return this;
  }

  /**
   * Works until it is asked to stop, the client is closed, or this thread is interrupted, as it
   * stays. From then on no handler begins: messages that have not begun are released within the
   * grace, also those that the ClaimNext in flight still brings, and handlers that run end and
   * settle. An interrupt during a ClaimNext counts from the end of that call.
   *
   * <p>The end is the same where a handler, {@code stop} or a Release throws, or a thread cannot be
   * started: no message that has not begun is renewed any more, and each thread ends with the
   * handler that it runs. Then the first error is thrown.
   *
   * @param stop asked again and again, by several threads, such as {@code Shutdown::requested}
   * @return false where a handler still runs after the grace
   * @throws ClosedException where the client is closed; nothing was sent
   * @throws IllegalStateException where this worker has run before: make another worker
   * @throws Error what a handler has thrown, after its claim is settled; or another error, as above
   */
  public boolean run(BooleanSupplier stop) {
    if (!begun.compareAndSet(false, true)) {
      throw new IllegalStateException(
          "this worker has run before: make another worker with Ledger.worker for each run");
    }
    asked = stop;
    Duration lease = ledger.lease() == null ? LEASE : ledger.lease();
    queue = new WorkQueue(concurrency, Inflight.nanos(lease));
    if (!ledger.inflight().enter(false)) {
      throw new ClosedException();
    }
    boolean ended;
    try {
      try {
        for (int at = 0; at < concurrency; at++) {
          Thread thread = new Thread(this::serve, "idempotency-ledger-worker");
          thread.setDaemon(true);
          thread.start();
        }
        take();
      } finally {
        stopped = true;
        ended = drained();
      }
    } finally {
      ledger.inflight().leave();
    }
    if (failure instanceof Error error) {
      throw error;
    }
    if (failure instanceof RuntimeException error) {
      throw error;
    }
    return ended;
  }

  /** Whether no handler may begin any more. Each thread asks; the first request to stop stays. */
  private boolean stopping() {
    if (!stopped && (failure != null || ledger.closing() || asked.getAsBoolean())) {
      stopped = true;
    }
    return stopped;
  }

  /** The same in the thread of {@link #run}, whose interrupt is a request to stop too. */
  private boolean asked() {
    if (Thread.currentThread().isInterrupted()) {
      stopped = true;
    }
    return stopping();
  }

  private void take() {
    ClaimNextRequest request = null;
    while (!asked()) {
      if (request == null) {
        request = request();
      }
      if (request == null) {
        await(TimeUnit.MILLISECONDS.toNanos(LOOK));
        continue;
      }
      Handout handout = ledger.taken(request);
      if (!handout.again()) {
        request = null;
      }
      List<Item> items = new ArrayList<>();
      handout.items().forEach(each -> items.add(ledger.handed(each)));
      try {
        asked(); // Before a handler may begin: the stop may have been requested during the call.
      } finally {
        synchronized (lock) {
          queue.add(items);
          lock.notifyAll();
        }
      }
      long until = System.nanoTime() + handout.pause();
      for (long left = handout.pause(); left > 0 && !asked(); left = until - System.nanoTime()) {
        Waiting.sleep(Math.min(left, TimeUnit.MILLISECONDS.toNanos(LOOK)));
      }
    }
  }

  /** The next ClaimNext; null while enough messages are at hand. */
  private ClaimNextRequest request() {
    synchronized (lock) {
      int most = queue.room();
      return most == 0 ? null : ledger.next(most, queue.longestWait());
    }
  }

  /** Runs handlers, one after the other. */
  private void serve() {
    for (Item item = next(); item != null; item = next()) {
      long began = System.nanoTime();
      try {
        Item running = item;
        ledger.processed(
            item.claim,
            item.renewal,
            claim -> handler.handle(claim, running.message),
            this::stopping);
      } catch (RuntimeException | Error error) {
        failed(error);
      } finally {
        Thread.interrupted();
        synchronized (lock) {
          queue.ended(item, System.nanoTime() - began);
          lock.notifyAll();
        }
      }
    }
  }

  /** The first error is what {@link #run} throws. */
  private void failed(Throwable error) {
    synchronized (lock) {
      failure = failure == null ? error : failure;
    }
  }

  private Item next() {
    synchronized (lock) {
      Item item = queue.next();
      while (item == null && !over) {
        await(TimeUnit.SECONDS.toNanos(1));
        item = queue.next();
      }
      return item;
    }
  }

  private void await(long nanos) {
    synchronized (lock) {
      try {
        TimeUnit.NANOSECONDS.timedWait(lock, nanos);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Releases what has not begun, and waits for what runs. */
  private boolean drained() {
    long until = System.nanoTime() + Inflight.nanos(grace);
    List<Item> left;
    synchronized (lock) {
      left = queue.drain();
      over = true; // First: the threads end whatever a Release comes to.
      lock.notifyAll();
    }
    for (Item item : left) {
      try {
        ledger.released(item.claim, item.renewal, until - System.nanoTime());
      } catch (RuntimeException | Error error) {
        failed(error); // The next message is released all the same.
      }
    }
    boolean interrupted = Thread.interrupted();
    synchronized (lock) {
      while (!queue.idle() && until - System.nanoTime() > 0) {
        await(until - System.nanoTime());
        interrupted |= Thread.interrupted();
      }
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
      return queue.idle();
    }
  }
}
