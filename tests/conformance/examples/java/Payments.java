import com.google.gson.JsonObject;
import java.nio.charset.StandardCharsets;

/**
 * Stands for a provider in the first example of clients/java/README.md: it knows idempotency keys.
 */
final class Payments {
  private Payments() {}

  static byte[] charge(byte[] body, String idempotencyKey) {
    String id = new String(body, StandardCharsets.UTF_8);
    JsonObject fields = new JsonObject();
    fields.addProperty("call", "charge-" + id);
    fields.addProperty("id", id);
    fields.addProperty(
        "token", "0"); // The provider knows no token; the sink counts the effects by their key.
    fields.addProperty("idempotency_key", idempotencyKey);
    Broker.say("effect", fields);
    Broker.going("charge-" + id).acquireUninterruptibly();
    return "paid".getBytes(StandardCharsets.UTF_8);
  }
}
