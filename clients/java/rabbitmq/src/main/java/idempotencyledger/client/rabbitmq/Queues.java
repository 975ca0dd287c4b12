package idempotencyledger.client.rabbitmq;

import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ShutdownSignalException;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;

/** Declares queues that are missing. */
final class Queues {
  private Queues() {}

  /**
   * Declares a durable queue unless there is one of that name. The server closes the channel that
   * asks for a queue which does not exist, so that each question has its own.
   */
  static void declare(Connection connection, String name, Map<String, Object> arguments)
      throws IOException {
    Channel asking = open(connection);
    try {
      asking.queueDeclarePassive(name);
      return;
    } catch (IOException e) {
      if (!missing(e)) {
        throw e;
      }
    } finally {
      asking.abort();
    }
    Channel declaring = open(connection);
    try {
      declaring.queueDeclare(name, true, false, false, arguments);
    } finally {
      declaring.abort();
    }
  }

  static Channel open(Connection connection) throws IOException {
    return connection
        .openChannel()
        .orElseThrow(() -> new IOException("the connection has no channel left"));
  }

  private static boolean missing(IOException error) {
    return error.getCause() instanceof ShutdownSignalException signal
        && signal.getReason() instanceof AMQP.Channel.Close close
        && close.getReplyCode() == AMQP.NOT_FOUND;
  }

  /**
   * The arguments of a quorum queue without a delivery limit, which before RabbitMQ 4 needs none.
   */
  static Map<String, Object> unlimited(Map<String, Object> server) {
    Map<String, Object> arguments = new HashMap<>();
    arguments.put("x-queue-type", "quorum");
    String major = String.valueOf(server.get("version")).split("\\.", 2)[0];
    if (major.matches("[0-9]{1,4}") && Integer.parseInt(major) >= 4) {
      arguments.put("x-delivery-limit", -1);
    }
    return arguments;
  }

  /**
   * The arguments of a delay queue, whose messages go back when its time is over. They leave it
   * when the other queue has confirmed them, and not before: a classic queue would lose them in
   * between. The packages for Python and Go declare the same.
   */
  static Map<String, Object> delay(String back, long milliseconds) {
    return Map.of(
        "x-queue-type", "quorum",
        "x-dead-letter-exchange", "",
        "x-dead-letter-routing-key", back,
        "x-dead-letter-strategy", "at-least-once",
        "x-overflow", "reject-publish",
        "x-message-ttl", milliseconds);
  }
}
