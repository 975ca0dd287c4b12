package idempotencyledger.client.brokers;

import com.google.gson.Strictness;
import com.google.gson.stream.JsonReader;
import com.google.gson.stream.JsonToken;
import idempotencyledger.client.Key;
import java.io.IOException;
import java.io.StringReader;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/** Reads the names of CloudEvents. */
public final class CloudEvents {
  /**
   * The bindings of CloudEvents: HTTP and NATS, Kafka, and AMQP with either of its separators. In
   * this order: the last wins.
   */
  private static final List<String> PREFIXES =
      List.of("ce-", "ce_", "cloudevents:", "cloudevents_");

  private static final String STRUCTURED = "application/cloudevents+json";
  private static final List<String> NAMES = List.of("source", "id", "time");

  private CloudEvents() {}

  /**
   * The name of a CloudEvent in binary mode (headers with a prefix such as {@code ce-}) or in
   * structured mode (content-type {@code application/cloudevents+json}). The content-type decides,
   * as in the bindings of CloudEvents: the attributes of a structured event are those of its body,
   * and attributes among its headers are not read. An id of a CloudEvent is unique within its
   * source, so both are those of the event.
   *
   * @param headers the delivery's headers; their names are compared without regard to case
   * @param body the delivery's raw body
   * @return the name; empty where the delivery is not a CloudEvent
   * @throws NoIdException where it is one without source or id
   */
  public static Optional<Named> named(Map<String, String> headers, byte[] body) {
    // Sorted: headers that differ by case alone give the same name on each delivery.
    Map<String, String> sorted = new TreeMap<>(headers);
    Map<String, String> attributes = new HashMap<>();
    String[] kind = {""};
    for (String prefix : PREFIXES) {
      sorted.forEach(
          (name, value) -> {
            String lower = name.toLowerCase(Locale.ROOT);
            if (lower.startsWith(prefix)) {
              attributes.put(lower.substring(prefix.length()), value);
            }
            if (lower.equals("content-type")) {
              kind[0] = value.toLowerCase(Locale.ROOT);
            }
          });
    }
    if (kind[0].startsWith(STRUCTURED)) {
      attributes.clear();
      attributes.putAll(decoded(body));
    } else if (attributes.isEmpty()) {
      return Optional.empty();
    }
    for (String attribute : List.of("source", "id")) {
      if (attributes.getOrDefault(attribute, "").isEmpty()) {
        throw new NoIdException("the CloudEvent has no attribute " + attribute);
      }
    }
    Key key = Key.of(attributes.get("source"), attributes.get("id"));
    return Optional.of(new Named(key, instant(attributes.getOrDefault("time", ""))));
  }

  /** The attributes of a structured event that name it, each of them a text. */
  private static Map<String, String> decoded(byte[] body) {
    Map<String, String> found = new HashMap<>();
    try {
      // Invalid bytes are refused: replaced, they could make one id of two.
      String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(body)).toString();
      if (text.startsWith("\uFEFF")) { // Gson would skip it.
        throw new IOException("a byte order mark is not JSON");
      }
      JsonReader reader = new JsonReader(new StringReader(text));
      reader.setStrictness(Strictness.STRICT);
      reader.beginObject();
      while (reader.hasNext()) {
        String name = reader.nextName();
        if (NAMES.contains(name) && reader.peek() == JsonToken.STRING) {
          found.put(name, reader.nextString());
        } else {
          found.remove(name);
          reader.skipValue();
        }
      }
      reader.endObject();
      if (reader.peek() != JsonToken.END_DOCUMENT) {
        throw new IOException("something follows the object");
      }
    } catch (CharacterCodingException e) {
      throw new NoIdException("the body is not UTF-8, and the content-type is " + STRUCTURED);
    } catch (IOException | IllegalStateException e) { // Their texts may quote the body.
      throw new NoIdException(
          "the body is not an object of JSON, and the content-type is " + STRUCTURED);
    }
    return found;
  }

  /** The instant of RFC 3339; null where the text is not one, or is one that no ledger takes. */
  private static Instant instant(String text) {
    try {
      OffsetDateTime found = OffsetDateTime.parse(text.toUpperCase(Locale.ROOT));
      int year = found.withOffsetSameInstant(ZoneOffset.UTC).getYear();
      return year < 1 || year > 9999 ? null : found.toInstant();
    } catch (DateTimeException e) {
      return null;
    }
  }
}
