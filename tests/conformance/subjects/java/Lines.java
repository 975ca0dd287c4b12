import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import idempotencyledger.client.Claim;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Outcome;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;

/** The lines of the protocol. */
final class Lines {
  private static final FileOutputStream OUTPUT = new FileOutputStream(FileDescriptor.out);
  private static final Gson GSON = new GsonBuilder().serializeNulls().create();
  private static final Map<String, Semaphore> GOING = new ConcurrentHashMap<>();

  private Lines() {}

  static synchronized void say(String event, Object... fields) {
    Map<String, Object> said = new LinkedHashMap<>();
    said.put("event", event);
    for (int at = 0; at < fields.length; at += 2) {
      said.put((String) fields[at], fields[at + 1]);
    }
    try {
      OUTPUT.write((GSON.toJson(said) + "\n").getBytes(StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  static Semaphore going(String call) {
    return GOING.computeIfAbsent(call, name -> new Semaphore(0));
  }

  static Duration seconds(JsonObject command, String name) {
    return command.has(name)
        ? Duration.ofNanos(Math.round(command.get(name).getAsDouble() * 1e9))
        : Duration.ZERO;
  }

  static byte[] content(JsonObject step, String name) {
    if (step.has("bytes")) {
      byte[] filled = new byte[step.get("bytes").getAsInt()];
      Arrays.fill(filled, (byte) 'x');
      return filled;
    }
    String text = step.has(name) ? step.get(name).getAsString() : "";
    return text.getBytes(StandardCharsets.UTF_8);
  }

  static void effect(String call, String id, String token, String key) {
    say("effect", "call", call, "id", id, "token", token, "idempotency_key", key);
  }

  static void started(String call, Claim claim) {
    say(
        "started",
        "call",
        call,
        "token",
        String.valueOf(claim.token()),
        "attempt",
        claim.attempt(),
        "idempotency_key",
        claim.idempotencyKey(),
        "effect_unknown",
        claim.effectUnknown(),
        "checkpoint",
        new String(claim.checkpoint(), StandardCharsets.UTF_8));
  }

  static void finished(String call, Outcome outcome) {
    say(
        "outcome",
        "call",
        call,
        "advice",
        outcome.advice().name(),
        "delay",
        outcome.delay().toNanos() / 1e9,
        "result",
        outcome.result().map(bytes -> new String(bytes, StandardCharsets.UTF_8)).orElse(null),
        "reason",
        outcome.reason().orElse(null),
        "replayed",
        outcome.replayed(),
        "result_dropped",
        outcome.resultDropped(),
        "effect_unknown",
        outcome.effectUnknown());
  }

  static void failed(String call, Throwable error) {
    say(
        "error",
        "call",
        call,
        "error",
        error.getClass().getSimpleName().replaceFirst("Exception$", ""),
        "field",
        error instanceof InvalidFieldException invalid ? invalid.field() : "",
        "text",
        String.valueOf(error.getMessage()));
  }
}
