package idempotencyledger.client;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Base64;
import java.util.HexFormat;

/**
 * What the lines of one effect say, besides the event and its instant: docs/away.md describes them.
 *
 * @param row names the effect
 * @param fingerprint of the body; no bytes where it is not known
 * @param result of an end; no bytes where there is none
 */
record SpoolLine(
    String row, String consumer, String source, String id, byte[] fingerprint, byte[] result) {
  private static final int VERSION = 1;
  private static final DateTimeFormatter INSTANT =
      DateTimeFormatter.ofPattern("uuuu-MM-dd'T'HH:mm:ss.SSSSSS'Z'").withZone(ZoneOffset.UTC);

  SpoolLine withResult(byte[] result) {
    return new SpoolLine(row, consumer, source, id, fingerprint, result);
  }

  /** The line of an event, with its line break. */
  byte[] render(String event, Instant at) {
    StringBuilder line = new StringBuilder("{\"v\":").append(VERSION);
    field(line, "event", event);
    field(line, "row", row);
    field(line, "at", INSTANT.format(at));
    field(line, "consumer", consumer);
    field(line, "source", source);
    field(line, "id", id);
    if (fingerprint.length > 0) {
      field(line, "fingerprint_hex", HexFormat.of().formatHex(fingerprint));
    }
    if (result.length > 0) {
      field(line, "result_base64", Base64.getEncoder().encodeToString(result));
    }
    return line.append("}\n").toString().getBytes(StandardCharsets.UTF_8);
  }

  /** The texts have no control characters: a key with one is not written. */
  private static void field(StringBuilder line, String name, String text) {
    String escaped = text.replace("\\", "\\\\").replace("\"", "\\\"");
    line.append(",\"").append(name).append("\":\"").append(escaped).append('"');
  }
}
