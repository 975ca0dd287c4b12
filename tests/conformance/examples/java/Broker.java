import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Stands for a broker in the first example of clients/java/README.md: the scenario delivers, and
 * sees what becomes of it.
 */
final class Broker {
  private static final BlockingQueue<Message> MESSAGES = new LinkedBlockingQueue<>();
  private static final Map<String, Semaphore> GOING = new ConcurrentHashMap<>();

  static {
    Thread reader = new Thread(Broker::read);
    reader.setDaemon(true);
    reader.start();
    say("ready", new JsonObject());
  }

  private Broker() {}

  static Message receive(Duration timeout) {
    try {
      return MESSAGES.poll(timeout.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException end) {
      Thread.currentThread().interrupt();
      return null;
    }
  }

  static Semaphore going(String call) {
    return GOING.computeIfAbsent(call, name -> new Semaphore(0));
  }

  static synchronized void say(String event, JsonObject fields) {
    fields.addProperty("event", event);
    System.out.println(fields);
    System.out.flush();
  }

  private static void read() {
    try (BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        JsonObject command = JsonParser.parseString(line).getAsJsonObject();
        String call = command.get("call").getAsString();
        if (command.get("do").getAsString().equals("process")) {
          MESSAGES.add(new Message(call, command.get("id").getAsString()));
        } else {
          going(call).release();
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

/** A delivery of the broker. */
record Message(String call, String id) {
  byte[] body() {
    return id.getBytes(StandardCharsets.UTF_8);
  }

  void ack() {
    done("ACK", Duration.ZERO);
  }

  void deadLetter() {
    done("DEAD_LETTER", Duration.ZERO);
  }

  void retry(Duration after) {
    done("RETRY_LATER", after);
  }

  private void done(String advice, Duration delay) {
    JsonObject fields = new JsonObject();
    fields.addProperty("call", call);
    fields.addProperty("advice", advice);
    fields.addProperty("delay", delay.toNanos() / 1e9);
    fields.add("reason", null);
    Broker.say("outcome", fields);
  }
}
