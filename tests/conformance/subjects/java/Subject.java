import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idempotencyledger.client.CheckpointDroppedException;
import idempotencyledger.client.Claim;
import idempotencyledger.client.Delivery;
import idempotencyledger.client.Doubtful;
import idempotencyledger.client.GiveBack;
import idempotencyledger.client.Handler;
import idempotencyledger.client.InboxMessage;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.LedgerBuilder;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.Park;
import idempotencyledger.client.Retry;
import idempotencyledger.client.Shutdown;
import idempotencyledger.client.Terminal;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** The subject of clients/java: PROTOCOL.md says what it reads and writes. */
public final class Subject {
  private static final Map<String, Ledger> LEDGERS = new ConcurrentHashMap<>();
  private static final Map<String, CompletableFuture<Outcome>> CALLS = new ConcurrentHashMap<>();
  private static final Set<CompletableFuture<Void>> RUNNING = ConcurrentHashMap.newKeySet();
  private static final ExecutorService THREADS = Executors.newCachedThreadPool();

  private Subject() {}

  public static void main(String[] arguments) throws Exception {
    Warm.up();
    Lines.say("ready", "forks", false, "forks_after_use", false, "cancels", true, "inbox", true);
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      obey(JsonParser.parseString(line).getAsJsonObject());
    }
    Runtime.getRuntime().halt(0);
  }

  private static void obey(JsonObject command) throws Exception {
    switch (command.get("do").getAsString()) {
      case "open" -> open(command);
      case "process" -> process(command);
      case "store" -> THREADS.execute(() -> store(command));
      case "work" -> THREADS.execute(() -> work(command));
      case "go" -> Lines.going(command.get("call").getAsString()).release();
      case "cancel" -> CALLS.get(command.get("call").getAsString()).cancel(true);
      case "close" -> close(command);
      case "shutdown" -> shutdown(Lines.seconds(command, "grace"));
      case "serve" -> Serving.serve(command);
      default -> throw new IllegalArgumentException(command.toString());
    }
  }

  private static void open(JsonObject command) {
    try {
      LedgerBuilder builder = Ledger.builder(command.get("consumer").getAsString());
      if (!command.get("endpoint").isJsonNull()) {
        builder.endpoint(command.get("endpoint").getAsString());
      }
      if (command.has("lease")) {
        builder.lease(Lines.seconds(command, "lease"));
      }
      if (command.has("repeat_announced")) {
        builder.repeatAnnounced(command.get("repeat_announced").getAsBoolean());
      }
      if (command.has("client_cert_file")) {
        builder.clientCertificate(
            Path.of(command.get("client_cert_file").getAsString()),
            Path.of(command.get("client_key_file").getAsString()));
      }
      LEDGERS.put(command.get("ledger").getAsString(), builder.build());
      Lines.say("opened");
    } catch (InvalidFieldException error) {
      Lines.failed("open", error);
    }
  }

  private static void process(JsonObject command) {
    String call = command.get("call").getAsString();
    try {
      Delivery delivery =
          Delivery.of(Key.of(command.get("source").getAsString(), command.get("id").getAsString()))
              .withWait(Lines.seconds(command, "wait"));
      if (command.has("body")) {
        delivery =
            delivery.withBody(command.get("body").getAsString().getBytes(StandardCharsets.UTF_8));
      }
      Ledger ledger = LEDGERS.get(command.get("ledger").getAsString());
      CompletableFuture<Void> done = new CompletableFuture<>();
      RUNNING.add(done);
      CompletableFuture<Outcome> running =
          ledger.processAsync(delivery, handler(call, command), THREADS);
      CALLS.put(call, running);
      running.whenComplete(
          (outcome, error) -> {
            if (running.isCancelled()) {
              Lines.say("cancelled", "call", call);
            } else if (error != null) {
              Lines.failed(call, error instanceof CompletionException ? error.getCause() : error);
            } else {
              Lines.finished(call, outcome);
            }
            done.complete(null);
          });
    } catch (InvalidFieldException error) {
      Lines.failed(call, error);
    }
  }

  private static Handler handler(String call, JsonObject command) {
    JsonArray steps = command.get("steps").getAsJsonArray();
    String id = command.get("id").getAsString();
    return claim -> {
      Lines.started(call, claim);
      for (JsonElement each : steps) {
        JsonObject step = each.getAsJsonObject();
        switch (step.get("do").getAsString()) {
          case "effect" -> {
            Lines.effect(call, id, String.valueOf(claim.token()), claim.idempotencyKey());
            Lines.going(call).acquireUninterruptibly();
          }
          case "pause" -> pause(call, claim);
          case "announce" -> claim.announce();
          case "save" -> {
            try {
              claim.save(Lines.content(step, "checkpoint"));
            } catch (CheckpointDroppedException dropped) {
              Lines.say("dropped", "call", call);
            }
          }
          case "complete" -> claim.complete(Lines.content(step, "result"));
          case "die" ->
              new ProcessBuilder("kill", "-9", String.valueOf(ProcessHandle.current().pid()))
                  .start()
                  .waitFor();
          case "raise" -> throw raised(step);
          case "return" -> {
            return Lines.content(step, "result");
          }
          default -> throw new IllegalArgumentException(step.toString());
        }
      }
      return null;
    };
  }

  private static void store(JsonObject command) {
    String call = command.get("call").getAsString();
    try {
      InboxMessage message = InboxMessage.of(Lines.content(command, "payload"));
      if (command.has("headers")) {
        for (Map.Entry<String, JsonElement> header :
            command.get("headers").getAsJsonObject().entrySet()) {
          byte[] value = header.getValue().getAsString().getBytes(StandardCharsets.UTF_8);
          message = message.withHeader(header.getKey(), value);
        }
      }
      Key key = Key.of(command.get("source").getAsString(), command.get("id").getAsString());
      Ledger ledger = LEDGERS.get(command.get("ledger").getAsString());
      Lines.finished(call, ledger.store(key, message));
    } catch (RuntimeException error) {
      Lines.failed(call, error);
    }
  }

  private static void work(JsonObject command) {
    JsonObject named = command.get("steps_of").getAsJsonObject();
    Ledger ledger = LEDGERS.get(command.get("ledger").getAsString());
    boolean ended =
        ledger
            .worker(
                (claim, message) -> {
                  String id = message.key().id();
                  Map<String, String> headers = new ConcurrentHashMap<>();
                  for (InboxMessage.Header header : message.message().headers()) {
                    headers.put(header.name(), new String(header.value(), StandardCharsets.UTF_8));
                  }
                  String payload = new String(message.payload(), StandardCharsets.UTF_8);
                  Lines.say("handed", "call", id, "payload", payload, "headers", headers);
                  JsonObject delivery = new JsonObject();
                  delivery.addProperty("id", id);
                  delivery.add("steps", named.has(id) ? named.get(id) : command.get("steps"));
                  return handler(id, delivery).handle(claim);
                })
            .concurrency(command.get("concurrency").getAsInt())
            .run(() -> false);
    Lines.say("worked", "ended", ended);
  }

  private static void pause(String call, Claim claim) throws InterruptedException {
    Lines.say("paused", "call", call);
    try {
      Lines.going(call).acquire();
    } catch (InterruptedException interrupted) {
      Lines.say("lost", "call", call, "reason", claim.lost().orElse(null));
      claim.check();
      throw interrupted;
    }
  }

  private static RuntimeException raised(JsonObject step) {
    String text = step.has("text") ? step.get("text").getAsString() : null;
    return switch (step.get("error").getAsString()) {
      case "Retry" ->
          new Retry(text, step.has("after") ? Lines.seconds(step, "after") : null, null);
      case "Terminal" -> new Terminal(text);
      case "Park" -> new Park(text);
      case "Doubtful" -> new Doubtful(text);
      case "GiveBack" ->
          new GiveBack(null, Duration.ZERO, step.has("unpin") && step.get("unpin").getAsBoolean());
      default -> new IllegalStateException(text);
    };
  }

  private static void close(JsonObject command) throws InterruptedException {
    Ledger ledger = LEDGERS.get(command.get("ledger").getAsString());
    Duration grace = Lines.seconds(command, "grace");
    THREADS.execute(() -> Lines.say("closed", "ended", ledger.close(grace)));
    while (!ledger.closing()) {
      Thread.sleep(1);
    }
    Lines.say("closing");
  }

  private static void shutdown(Duration grace) {
    Shutdown stop = Shutdown.onSignal(grace);
    THREADS.execute(
        () -> {
          try {
            while (!stop.await(Duration.ofMinutes(1))) {
              continue;
            }
            Lines.say("stopping");
            LEDGERS.values().forEach(Ledger::close);
            CompletableFuture.allOf(RUNNING.toArray(CompletableFuture[]::new)).join();
            Runtime.getRuntime().halt(0);
          } catch (InterruptedException end) {
            Thread.currentThread().interrupt();
          }
        });
  }
}
