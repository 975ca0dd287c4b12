package idempotencyledger.client.rabbitmq;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.ShutdownListener;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeoutException;

/** Publishes copies of messages, one at a time, over a channel that confirms them. */
final class Copies {
  /** Seconds of the delay queues. A queue has one, since RabbitMQ expires its head alone. */
  private static final long[] DELAYS = {1, 2, 5, 10, 30, 60, 300, 900};

  private static final long CONFIRM = 10_000; // ms

  private final Connection connection;
  private final Channel channel;
  private final Set<String> declared = new HashSet<>();
  private volatile boolean returned;

  Copies(Connection connection, ShutdownListener closed) throws IOException {
    this.connection = connection;
    channel = Queues.open(connection);
    channel.addShutdownListener(closed);
    channel.addReturnListener(unroutable -> returned = true);
    channel.confirmSelect();
  }

  /**
   * Milliseconds that a postponed message must still wait. A clock that is wrong delays no message
   * for longer than the longest queue at a time.
   */
  static long notDue(BasicProperties message, long now) {
    return Math.min(Headers.due(message) - now, DELAYS[DELAYS.length - 1] * 1000);
  }

  /** The seconds of the longest delay queue that does not exceed the delay, or of the shortest. */
  static long queueOf(long milliseconds) {
    long length = DELAYS[0];
    for (long each : DELAYS) {
      if (each * 1000 <= milliseconds) {
        length = each;
      }
    }
    return length;
  }

  /**
   * Stores a copy in a delay queue.
   *
   * @return an empty text where the server has confirmed it, else why it has not
   */
  synchronized String postpone(String queue, Delivery message, long milliseconds) {
    long now = System.currentTimeMillis();
    long due = Headers.due(message.getProperties());
    if (due <= now) {
      due = now + milliseconds;
    }
    long seconds = queueOf(milliseconds);
    String name = queue + ".later." + seconds + "s";
    return store(message, name, Queues.delay(queue, seconds * 1000), QueueConsumer.DUE_HEADER, due);
  }

  /**
   * Stores a copy for people.
   *
   * @return an empty text where the server has confirmed it, else why it has not
   */
  synchronized String deadLetter(String queue, Delivery message, String reason) {
    Map<String, Object> unlimited = Queues.unlimited(connection.getServerProperties());
    return store(message, queue, unlimited, QueueConsumer.REASON_HEADER, reason);
  }

  private String store(
      Delivery message, String queue, Map<String, Object> arguments, String name, Object value) {
    try {
      if (!declared.contains(queue)) {
        Queues.declare(connection, queue, arguments);
        declared.add(queue);
      }
      returned = false;
      BasicProperties properties = Headers.copied(message.getProperties(), name, value);
      channel.basicPublish("", queue, true, properties, message.getBody());
      boolean stored = channel.waitForConfirms(CONFIRM);
      if (returned) { // The server returns what no queue has, and confirms it after that.
        declared.remove(queue);
        return "the queue " + queue + " does not exist";
      }
      return stored ? "" : "the queue " + queue + " refuses the copy";
    } catch (TimeoutException e) {
      return "the server has not confirmed it within " + CONFIRM + " ms";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return "the thread was interrupted";
    } catch (IOException | ShutdownSignalException e) {
      return Subscription.text(e);
    }
  }

  void close() throws IOException {
    channel.abort();
  }
}
