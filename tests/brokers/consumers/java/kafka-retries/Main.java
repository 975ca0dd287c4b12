package kafkaretries;

import handler.Kafka;
import java.util.Map;

/**
 * A consumer of Kafka that copies a message that comes later to a topic: its partition goes on. Its
 * group moves partitions cooperatively.
 */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    Kafka.run(
        arguments,
        "orders.retry",
        Map.of(
            "partition.assignment.strategy",
            "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
  }
}
