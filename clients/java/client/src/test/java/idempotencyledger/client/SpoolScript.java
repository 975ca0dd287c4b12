package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A file of a spool that notes what is done to it, and fails from one step on. */
final class SpoolScript implements SpoolFile {
  static final Outcome AWAY =
      Outcome.later("NO_ANSWER (UNAVAILABLE)")
          .withAdvice(Advice.RETRY_LATER, Duration.ofSeconds(1))
          .withAway(true);
  static final Delivery DELIVERY = Delivery.of(Key.of("shop", "order-1"));
  static final Callable<byte[]> NEVER =
      () -> {
        throw new AssertionError("the effect ran");
      };
  private static final Pattern FIELD =
      Pattern.compile("\"(\\w+)\":(?:(\\d+)|\"((?:[^\"\\\\]++|\\\\.)*+)\")");

  final List<String> steps = new ArrayList<>();
  final List<Map<String, String>> lines = new ArrayList<>();

  /** The step that fails first; 0: no step fails. */
  int fails;

  Spool spool() {
    return new Spool(this, Clock.systemUTC());
  }

  private void step(String name) throws IOException {
    steps.add(name);
    if (fails > 0 && steps.size() >= fails) {
      throw new IOException("no space left on device");
    }
  }

  @Override
  public void append(byte[] line) throws IOException {
    String text = new String(line, StandardCharsets.UTF_8);
    assertEquals(text.length() - 1, text.indexOf('\n'), "is one whole line");
    lines.add(fields(text.strip()));
    step(lines.get(lines.size() - 1).get("event"));
  }

  @Override
  public void sync() throws IOException {
    step("sync");
  }

  @Override
  public void close() throws IOException {
    step("close");
  }

  List<String> events() {
    return lines.stream().map(line -> line.get("event")).toList();
  }

  /** The fields of a line in their order: a flat object of numbers and texts. */
  static Map<String, String> fields(String line) {
    Map<String, String> fields = new LinkedHashMap<>();
    Matcher found = FIELD.matcher(line);
    int end = 0;
    while (found.find()) {
      assertEquals(end == 0 ? "{" : ",", line.substring(end, found.start()));
      String text = found.group(2) == null ? found.group(3) : found.group(2);
      fields.put(found.group(1), text.replaceAll("\\\\(.)", "$1"));
      end = found.end();
    }
    assertTrue(line.substring(end).equals("}"), line);
    return fields;
  }
}
