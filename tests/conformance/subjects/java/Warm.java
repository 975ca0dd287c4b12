import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import io.grpc.Server;
import java.util.concurrent.TimeUnit;

/**
 * Deliveries over a server within this JVM. The first call of a JVM takes long, and the leases of
 * the scenarios have a second; an application's have thirty.
 */
final class Warm {
  private Warm() {}

  static void up() throws Exception {
    if (System.getenv("LEDGER_CA_FILE") != null) {
      return; // The client would ask for TLS.
    }
    Server server = Training.server();
    try (Ledger ledger = Ledger.builder("warm").endpoint("127.0.0.1:" + server.getPort()).build()) {
      for (int at = 0; at < 2; at++) {
        ledger.process(
            Key.of("warm", "up"),
            new byte[0],
            claim -> {
              // Until the lease was renewed, too, or does not get to it.
              Training.RENEWED.await(2, TimeUnit.SECONDS);
              return new byte[0];
            });
      }
    } finally {
      server.shutdownNow();
    }
  }
}
