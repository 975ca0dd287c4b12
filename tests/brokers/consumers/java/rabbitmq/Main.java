package rabbitmq;

import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import handler.Handler;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.rabbitmq.QueueConsumer;

/** A consumer of RabbitMQ. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) throws Exception {
    Handler handler = new Handler(arguments);
    ConnectionFactory factory = new ConnectionFactory();
    // The client takes an empty path for the name of a virtual host, and none for the default one.
    factory.setUri(handler.broker().replaceFirst("/$", ""));
    factory.setAutomaticRecoveryEnabled(false);
    try (Connection connection = factory.newConnection();
        Ledger ledger = handler.ledger()) {
      new QueueConsumer(
              ledger,
              connection,
              "orders",
              (claim, message) -> handler.pay(claim, message.getBody()))
          .concurrency(4)
          .run(handler.stop()::requested);
    }
  }
}
