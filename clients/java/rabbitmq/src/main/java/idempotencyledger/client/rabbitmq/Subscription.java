package idempotencyledger.client.rabbitmq;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.ShutdownSignalException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.internal.Deliveries;
import idempotencyledger.client.brokers.internal.Log;
import idempotencyledger.client.brokers.internal.Verdict;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/** One run of a {@link QueueConsumer}. */
final class Subscription {
  private static final long ASK = 100; // ms: a request to stop is noticed after it
  private static final long COPY_AGAIN = 1000; // ms

  record Settings(
      Ledger ledger,
      String queue,
      MessageHandler handler,
      BiFunction<String, Delivery, Named> named,
      String deadLetters,
      int concurrency,
      Duration grace) {}

  private final Settings settings;
  private final Connection connection;
  private final Log log;
  private final Deliveries deliveries;
  private final ExecutorService threads;
  private Copies copies;
  private Channel channel;

  /** Messages that have arrived and not ended. The lock of this object guards it. */
  private int running;

  private volatile boolean stopping;
  private boolean interrupted;

  Subscription(Settings settings, Connection connection) {
    this.settings = settings;
    this.connection = connection;
    log = new Log("queue " + settings.queue());
    deliveries = new Deliveries(settings.ledger(), log);
    threads =
        Executors.newFixedThreadPool(
            settings.concurrency(),
            work -> {
              Thread thread = new Thread(work, "idempotency-ledger-rabbitmq");
              thread.setDaemon(true);
              return thread;
            });
  }

  /** See {@link QueueConsumer#run}. */
  void run(BooleanSupplier stop) throws IOException {
    try {
      consume(stop);
    } catch (IOException | RuntimeException e) {
      deliveries.fail(e);
    } finally {
      end();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
    deliveries.end(running(), settings.grace(), IOException.class);
  }

  private void consume(BooleanSupplier stop) throws IOException {
    for (String queue : List.of(settings.queue(), settings.deadLetters())) {
      Queues.declare(connection, queue, Queues.unlimited(connection.getServerProperties()));
    }
    copies = new Copies(connection, this::lost);
    channel = Queues.open(connection);
    channel.basicQos(settings.concurrency());
    String tag =
        channel.basicConsume(
            settings.queue(),
            false,
            (ours, message) -> arrived(message),
            ours -> fail(new IOException("the server has ended the consumption: no such queue")),
            (ours, signal) -> lost(signal));
    while (!interrupted && deliveries.failure() == null && !stop.getAsBoolean()) {
      await(ASK);
    }
    stopping = true;
    if (channel.isOpen()) {
      channel.basicCancel(tag);
    }
  }

  /** Waits for the running handlers. What was not acknowledged returns to the queue. */
  private void end() throws IOException {
    stopping = true;
    threads.shutdown();
    long end = System.nanoTime() + settings.grace().toNanos();
    while (running() > 0 && System.nanoTime() - end < 0) {
      await(ASK);
    }
    if (copies != null) {
      copies.close();
    }
    if (channel != null) {
      channel.abort();
    }
  }

  private void lost(ShutdownSignalException signal) {
    if (!stopping) {
      fail(new IOException("the channel is closed: " + text(signal), signal));
    }
  }

  private synchronized void fail(Throwable error) {
    deliveries.fail(error);
    notifyAll();
  }

  private synchronized int running() {
    return running;
  }

  /** Waits until something has changed, at most so many milliseconds. */
  private synchronized void await(long most) {
    try {
      wait(most);
    } catch (InterruptedException e) {
      interrupted = true;
    }
  }

  private synchronized void arrived(Delivery message) {
    if (!stopping) {
      running++;
      threads.execute(() -> work(message));
    }
  }

  private void work(Delivery message) {
    try {
      if (settled(message)) {
        synchronized (channel) {
          channel.basicAck(message.getEnvelope().getDeliveryTag(), false);
        }
      }
    } catch (IOException | ShutdownSignalException e) {
      // RabbitMQ delivers it again, and the ledger knows what became of it.
      log.warn("a message was not acknowledged", text(e));
    } catch (RuntimeException | Error e) {
      fail(e);
    } finally {
      synchronized (this) {
        running--;
        notifyAll();
      }
    }
  }

  /** Whether the message is done, or a copy of it is stored. */
  private boolean settled(Delivery message) {
    long wait = Copies.notDue(message.getProperties(), System.currentTimeMillis());
    if (wait > 0) {
      return copied(() -> copies.postpone(settings.queue(), message, wait));
    }
    Supplier<Named> name = () -> settings.named().apply(settings.queue(), message);
    Verdict verdict =
        settings.handler() == MessageHandler.STORE
            ? deliveries.store(
                name, Headers.inboxMessage(settings.queue(), message), () -> stopping)
            : deliveries.process(
                name,
                message.getBody(),
                () -> stopping,
                claim -> settings.handler().handle(claim, message));
    long delay = verdict.delay().toMillis();
    return switch (verdict.kind()) {
      case ACK -> true;
      case NOT_BEGUN -> false;
      case RETRY_LATER -> copied(() -> copies.postpone(settings.queue(), message, delay));
      case DEAD_LETTER ->
          copied(() -> copies.deadLetter(settings.deadLetters(), message, verdict.reason()));
    };
  }

  /**
   * Makes a copy, and tries again until it is stored: RabbitMQ does not deliver the message again
   * before the run ends.
   */
  private boolean copied(Supplier<String> store) {
    while (true) {
      String failed = store.get();
      if (failed.isEmpty()) {
        return true;
      }
      log.error("a copy of a message is not stored; the message is kept", failed);
      long end = System.nanoTime() + COPY_AGAIN * 1_000_000;
      synchronized (this) {
        for (long left = COPY_AGAIN; left > 0; left = (end - System.nanoTime()) / 1_000_000) {
          if (stopping || deliveries.failure() != null) {
            return false;
          }
          try {
            wait(Math.min(left, ASK));
          } catch (InterruptedException e) {
            return false;
          }
        }
      }
    }
  }

  static String text(Throwable error) {
    return error.getClass().getSimpleName() + ": " + error.getMessage();
  }
}
