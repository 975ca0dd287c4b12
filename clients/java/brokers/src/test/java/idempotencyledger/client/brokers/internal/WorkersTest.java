package idempotencyledger.client.brokers.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Ledger;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.Test;

class WorkersTest {
  /**
   * A broker's client that waits for an answer, as a read of a socket does: no interrupt ends it.
   */
  private static void poll() {
    long end = System.nanoTime() + Duration.ofMillis(20).toNanos();
    while (System.nanoTime() - end < 0) {
      LockSupport.parkNanos(end - System.nanoTime());
    }
  }

  @Test
  void run_after_an_interrupt_drains_and_keeps_the_flag() throws Exception {
    try (Ledger ledger = Ledger.builder("payments").endpoint("127.0.0.1:1").build()) {
      Deliveries deliveries = new Deliveries(ledger, new Log("queue orders"));
      Workers workers = new Workers("worker", 2, deliveries);
      CountDownLatch begun = new CountDownLatch(1);
      CountDownLatch release = new CountDownLatch(1);
      AtomicInteger polls = new AtomicInteger();
      CompletableFuture<Boolean> flag = new CompletableFuture<>();
      Thread running =
          Workers.thread(
              "run",
              () -> {
                workers.run(
                    () -> false,
                    free -> {
                      // One of two threads stays free, so that the run polls all the time.
                      if (polls.getAndIncrement() == 0) {
                        workers.begin(
                            () -> {
                              begun.countDown();
                              try {
                                release.await();
                              } catch (InterruptedException e) {
                                Thread.currentThread().interrupt();
                              }
                            });
                      }
                      poll();
                    },
                    Duration.ofSeconds(10));
                flag.complete(Thread.currentThread().isInterrupted());
              });
      running.start();
      assertTrue(begun.await(5, TimeUnit.SECONDS));
      running.interrupt();
      long end = System.nanoTime() + Duration.ofSeconds(5).toNanos();
      while (!workers.stopping() && System.nanoTime() - end < 0) {
        Thread.sleep(5);
      }
      assertTrue(workers.stopping(), "the interrupt does not end the run");
      assertFalse(flag.isDone(), "the run does not wait for a handler");
      release.countDown();
      assertTrue(flag.get(5, TimeUnit.SECONDS), "the thread is not interrupted afterwards");
      assertEquals(0, workers.running());
    }
  }
}
