package idempotencyledger.client.servlet;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import idempotencyledger.client.Advice;
import idempotencyledger.client.GiveBack;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Outcome;
import idempotencyledger.client.Park;
import idempotencyledger.client.Retry;
import idempotencyledger.client.Steer;
import idempotencyledger.client.servlet.Answer.Header;
import java.io.ByteArrayOutputStream;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * What becomes of a request and of its answer. The stored form is that of all packages: services in
 * several languages agree.
 */
final class Rules {
  // Before the answers that are made with it.
  private static final Gson GSON = new GsonBuilder().disableHtmlEscaping().create();
  static final Answer MALFORMED =
      problem(
          400,
          "Idempotency-Key must be there once: 1 to 255 visible ASCII characters, or a quoted"
              + " string",
          Duration.ZERO);
  static final Answer MISSING =
      problem(400, "this request needs the header Idempotency-Key", Duration.ZERO);
  static final Answer CLOSING = problem(503, "this server is shutting down", Duration.ofSeconds(1));

  /**
   * Bare, as most clients send it: without the comma by which two headers are joined. Or a string
   * of structured fields.
   */
  private static final Pattern KEY =
      Pattern.compile("([!#-+\\x2D-~]{1,255})|\"((?:[ !#-\\[\\]-~]|\\\\[\"\\\\]){1,255})\"");

  private static final int SOURCE_MAX = 256;
  private static final String OMITTED = "omitted";
  private static final byte[] NOTHING_STORED =
      "[200, [], \"omitted\"]".getBytes(StandardCharsets.UTF_8);

  private Rules() {}

  /**
   * The key of a request by the values of its header; empty where it is malformed, or there more
   * than once.
   */
  static Optional<String> key(List<String> values) {
    Matcher found = KEY.matcher(values.size() == 1 ? values.get(0) : "");
    if (!found.matches()) {
      return Optional.empty();
    }
    String bare = found.group(1);
    return Optional.of(bare != null ? bare : found.group(2).replaceAll("\\\\(.)", "$1"));
  }

  /**
   * The source of a request. A hash where it would be too long: cut, it could be that of another
   * tenant.
   */
  static String source(String tenant, String method, String route) {
    String source =
        Stream.of(tenant, method, route).map(Rules::encoded).collect(Collectors.joining("/"));
    return source.length() <= SOURCE_MAX ? source : hashed(source);
  }

  private static String encoded(String part) {
    if (part == null) {
      throw new InvalidFieldException(
          "key.source",
          "IdempotencySettings.tenant or route returned null: return a text for each request, and"
              + " place the filter after the one that authenticates");
    }
    if (!StandardCharsets.UTF_8.newEncoder().canEncode(part)) {
      throw new InvalidFieldException(
          "key.source", "is not valid Unicode: it has a lone surrogate");
    }
    return URLEncoder.encode(part, StandardCharsets.UTF_8)
        .replace("+", "%20")
        .replace("*", "%2A")
        .replace("%7E", "~");
  }

  private static String hashed(String source) {
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      return HexFormat.of().formatHex(digest.digest(source.getBytes(StandardCharsets.US_ASCII)));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  /** How the claim of an answered request is settled; empty: as completed. */
  static Optional<Steer> ending(IdempotencySettings settings, int status, boolean announced) {
    Rule rule = settings.rule().apply(status);
    if (rule == Rule.FAIL) {
      return Optional.of(failure("status " + status, announced));
    }
    if (rule == Rule.RELEASE && !announced) {
      return Optional.of(new GiveBack("status " + status, Duration.ZERO, true));
    }
    return Optional.empty();
  }

  /** How the claim of a request is settled whose effect is unknown. */
  static Steer failure(String reason, boolean announced) {
    return announced ? new Park(reason) : new Retry(reason, Duration.ZERO, null);
  }

  /**
   * What the ledger stores of an answer: a line of JSON, then the body, unless it is too large or
   * incomplete.
   */
  static byte[] stored(IdempotencySettings settings, Answer answer, boolean complete) {
    JsonArray kept = new JsonArray();
    for (Header header : answer.headers()) {
      if (settings.keptHeaders().contains(header.name())) {
        JsonArray pair = new JsonArray();
        pair.add(header.name());
        pair.add(header.value());
        kept.add(pair);
      }
    }
    JsonArray head = new JsonArray();
    head.add(answer.status());
    head.add(kept);
    byte[] line = GSON.toJson(head).getBytes(StandardCharsets.UTF_8);
    if (complete && line.length + 1L + answer.body().length <= settings.resultMax()) {
      ByteArrayOutputStream whole = new ByteArrayOutputStream();
      whole.writeBytes(line);
      whole.write('\n');
      whole.writeBytes(answer.body());
      return whole.toByteArray();
    }
    head.add(OMITTED);
    return GSON.toJson(head).getBytes(StandardCharsets.UTF_8);
  }

  /** The answer to a repeat, and whether its body is left out. */
  record Replayed(Answer answer, boolean omitted) {}

  /** The answer to a repeat. The effect happened also where no result is stored. */
  static Replayed replayed(Optional<byte[]> stored) {
    byte[] result = stored.filter(bytes -> bytes.length > 0).orElseGet(NOTHING_STORED::clone);
    int end = 0;
    while (end < result.length && result[end] != '\n') {
      end++;
    }
    String line = new String(result, 0, end, StandardCharsets.UTF_8);
    JsonArray head = JsonParser.parseString(line).getAsJsonArray();
    List<Header> headers = new ArrayList<>();
    for (JsonElement each : head.get(1).getAsJsonArray()) {
      JsonArray pair = each.getAsJsonArray();
      headers.add(new Header(pair.get(0).getAsString(), pair.get(1).getAsString()));
    }
    boolean omitted = head.size() > 2;
    if (omitted) {
      headers.add(new Header("idempotency-body", OMITTED));
    }
    byte[] body = Arrays.copyOfRange(result, Math.min(end + 1, result.length), result.length);
    return new Replayed(marked(new Answer(head.get(0).getAsInt(), headers, body)), omitted);
  }

  /** An answer, marked as that to a repeat. */
  static Answer marked(Answer answer) {
    List<Header> headers = new ArrayList<>(answer.headers());
    headers.add(new Header("idempotency-replayed", "true"));
    return new Answer(answer.status(), headers, answer.body());
  }

  /**
   * The answer where there is none of the application: it did not run, or its claim was lost amid
   * it.
   */
  static Answer refused(Outcome outcome) {
    String reason = outcome.reason().orElse("");
    if (reason.equals("fingerprint_mismatch")) {
      return problem(422, "this Idempotency-Key was used with another body", Duration.ZERO);
    }
    if (outcome.advice() == Advice.DEAD_LETTER) {
      return problem(
          500, "an earlier request may have had its effect: a person must find out", Duration.ZERO);
    }
    if (reason.equals("in_progress") || reason.equals("backoff")) {
      return problem(
          409, "the first request with this Idempotency-Key is not done yet", outcome.delay());
    }
    return problem(
        503, "whether this request was processed cannot be known now: repeat it", outcome.delay());
  }

  /** An answer of the filter itself (RFC 9457). */
  static Answer problem(int status, String title, Duration retryAfter) {
    List<Header> headers = new ArrayList<>();
    headers.add(new Header("content-type", "application/problem+json"));
    if (!retryAfter.isZero()) {
      long seconds = retryAfter.plusNanos(999_999_999).toSeconds();
      headers.add(new Header("retry-after", String.valueOf(seconds)));
    }
    JsonObject body = new JsonObject();
    body.addProperty("title", title);
    body.addProperty("status", status);
    return new Answer(status, headers, GSON.toJson(body).getBytes(StandardCharsets.UTF_8));
  }
}
