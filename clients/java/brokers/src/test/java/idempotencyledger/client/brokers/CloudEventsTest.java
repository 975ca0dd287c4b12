package idempotencyledger.client.brokers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import idempotencyledger.client.Key;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class CloudEventsTest {
  private static final Map<String, String> STRUCTURED =
      Map.of("Content-Type", "application/cloudevents+json; charset=utf-8");

  private static Optional<Named> structured(String body) {
    return CloudEvents.named(STRUCTURED, body.getBytes(StandardCharsets.UTF_8));
  }

  private static void refused(String body) {
    assertThrows(NoIdException.class, () -> structured(body), body);
  }

  @Test
  void binary_mode_is_read_by_each_binding() {
    for (String prefix : new String[] {"ce-", "CE_", "cloudEvents:", "cloudEvents_"}) {
      Map<String, String> headers =
          Map.of(
              prefix + "id",
              "1",
              prefix + "source",
              "shop",
              prefix + "time",
              "2026-01-02T12:00:00z");
      Instant noon = Instant.parse("2026-01-02T12:00:00Z");
      assertEquals(
          Optional.of(new Named(Key.of("shop", "1"), noon)),
          CloudEvents.named(headers, new byte[0]));
    }
  }

  @Test
  void structured_mode_is_read_from_the_body() {
    String text = "{\"a\": {\"id\": \"x\"}, \"id\": \"0\", \"source\": \"shop\", \"id\": \"1\"}";
    assertEquals(Optional.of(Named.of("shop", "1")), structured(text));
  }

  @Test
  void structured_mode_is_not_read_from_headers() {
    byte[] body = "{\"id\": \"1\", \"source\": \"shop\"}".getBytes(StandardCharsets.UTF_8);
    assertEquals(
        Optional.of(Named.of("shop", "1")),
        CloudEvents.named(withHeaders("application/cloudevents+json"), body));
    assertThrows(
        NoIdException.class,
        () -> CloudEvents.named(withHeaders("application/cloudevents+json"), new byte[0]));
    // In another format the event cannot be read: its headers count.
    assertEquals(
        Optional.of(Named.of("other", "2")),
        CloudEvents.named(withHeaders("application/cloudevents+avro"), body));
  }

  private static Map<String, String> withHeaders(String contentType) {
    return Map.of("content-type", contentType, "ce_id", "2", "ce_source", "other");
  }

  @Test
  void other_deliveries_are_not_events() {
    assertEquals(Optional.empty(), CloudEvents.named(Map.of("id", "1"), new byte[0]));
    assertEquals(
        Optional.empty(),
        CloudEvents.named(
            Map.of("content-type", "application/cloudevents-batch+json"), new byte[] {'[', ']'}));
  }

  @Test
  void event_without_a_name_is_refused() {
    refused("{\"source\": \"shop\"}");
    refused("{\"id\": \"1\", \"source\": \"\"}");
    refused("{\"id\": 1, \"source\": \"shop\"}");
    refused("{\"id\": \"1\", \"id\": null, \"source\": \"shop\"}");
    refused("[]");
    refused("");
    refused("{id: '1', source: 'shop'}");
    refused("{\"id\": \"1\", \"source\": \"shop\"} {}");
    byte[] invalid =
        "{\"id\": \"\u00ff\", \"source\": \"shop\"}".getBytes(StandardCharsets.ISO_8859_1);
    assertThrows(NoIdException.class, () -> CloudEvents.named(STRUCTURED, invalid));
    assertThrows(NoIdException.class, () -> CloudEvents.named(Map.of("ce_id", "1"), invalid));
  }

  private static String withData(String data) {
    return "{\"id\": \"1\", \"source\": \"shop\", \"data\": " + data + "}";
  }

  @Test
  void body_of_an_event_that_is_not_json_is_refused() {
    refused("\uFEFF" + withData("1"));
    refused(withData("NaN"));
    refused(withData("Infinity"));
    refused(withData("-Infinity"));
    refused(withData("[".repeat(100_000) + "]".repeat(100_000)));
    assertEquals(Optional.of(Named.of("shop", "1")), structured(withData("1".repeat(1_000))));
  }

  @Test
  void lone_surrogate_is_a_fault_of_the_key() {
    // Encoded, it would be the same id as any other lone surrogate.
    Key key = structured("{\"id\": \"\\ud800\", \"source\": \"shop\"}").orElseThrow().key();
    assertEquals("key.id", key.fault().orElseThrow().field());
  }

  @Test
  void time_that_is_not_an_instant_is_not_known() {
    for (String time :
        new String[] {"", "yesterday", "2026-01-02T12:00:00", "+12026-01-02T12:00:00Z"}) {
      Map<String, String> headers = Map.of("ce_id", "1", "ce_source", "shop", "ce_time", time);
      assertEquals(
          Optional.of(Named.of("shop", "1")), CloudEvents.named(headers, new byte[0]), time);
    }
  }
}
