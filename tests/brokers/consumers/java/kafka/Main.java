package kafka;

import handler.Kafka;
import java.util.Map;

/** A consumer of Kafka: a message that comes later stops its partition. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    Kafka.run(arguments, null, Map.of());
  }
}
