package handler;

import idempotencyledger.client.Ledger;
import idempotencyledger.client.kafka.TopicConsumer;
import java.util.Map;

/** Consumes a topic of Kafka. */
public final class Kafka {
  private Kafka() {}

  /**
   * Consumes until the process is asked to stop.
   *
   * @param retries the topic of messages that come later; null: their partitions wait
   * @param more further settings of the consumer
   */
  public static void run(String[] arguments, String retries, Map<String, ?> more) {
    Handler handler = new Handler(arguments);
    try (Ledger ledger = handler.ledger()) {
      Map<String, String> config =
          Map.of(
              "bootstrap.servers", handler.broker(),
              "session.timeout.ms", handler.waitMs(),
              "heartbeat.interval.ms", "250");
      new TopicConsumer(
              ledger, config, "orders", (claim, message) -> handler.pay(claim, message.value()))
          .consumer(more)
          .retries(retries)
          .concurrency(4)
          .run(handler.stop()::requested);
    }
  }
}
