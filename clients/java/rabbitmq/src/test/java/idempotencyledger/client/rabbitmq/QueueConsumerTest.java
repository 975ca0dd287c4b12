package idempotencyledger.client.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.LongString;
import com.rabbitmq.client.RecoverableConnection;
import com.rabbitmq.client.impl.LongStringHelper;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Key;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Date;
import java.util.Map;
import org.junit.jupiter.api.Test;

class QueueConsumerTest {
  private static final byte[] EVENT =
      "{\"id\": \"3\", \"source\": \"shop\"}".getBytes(StandardCharsets.UTF_8);

  private static BasicProperties.Builder properties(Map<String, Object> headers) {
    return new BasicProperties.Builder().headers(headers);
  }

  private static Named name(BasicProperties.Builder properties, byte[] body) {
    return QueueConsumer.nameOf("orders", new Delivery(null, properties.build(), body));
  }

  private static LongString text(String text) {
    return LongStringHelper.asLongString(text);
  }

  @Test
  void name_is_that_of_the_event_or_the_property() {
    assertEquals(Named.of("orders", "1"), name(properties(null).messageId("1"), new byte[0]));
    Instant noon = Instant.parse("2026-01-02T12:00:00Z");
    Map<String, Object> event =
        Map.of(
            "cloudEvents:id", 2,
            "cloudEvents:source", text("shop"),
            "cloudEvents:time", Date.from(noon));
    assertEquals(
        new Named(Key.of("shop", "2"), noon), name(properties(event).messageId("1"), new byte[0]));
    assertEquals(
        Named.of("shop", "3"),
        name(properties(null).contentType("application/cloudevents+json"), EVENT));
  }

  @Test
  void message_without_an_id_has_no_name() {
    byte[] invalid = {(byte) 0xff};
    for (BasicProperties.Builder each :
        new BasicProperties.Builder[] {
          properties(null),
          properties(null).messageId(""),
          properties(null).messageId("\ufffd"),
          properties(Map.of("without-message-id", text("true"))).messageId("1"),
          properties(
              Map.of(
                  "cloudEvents:id", LongStringHelper.asLongString(invalid),
                  "cloudEvents:source", text("shop"))),
        }) {
      assertThrows(NoIdException.class, () -> name(each, new byte[0]));
    }
  }

  @Test
  void postponed_message_waits_until_it_is_due() {
    assertTrue(Copies.notDue(properties(null).build(), 1000) <= 0);
    assertTrue(Copies.notDue(properties(Map.of("retry-at", text("soon"))).build(), 1000) <= 0);
    assertTrue(Copies.notDue(properties(Map.of("retry-at", 900L)).build(), 1000) <= 0);
    assertEquals(500, Copies.notDue(properties(Map.of("retry-at", 1500L)).build(), 1000));
    // A wrong clock.
    BasicProperties far = properties(Map.of("retry-at", Long.MAX_VALUE)).build();
    assertEquals(900_000, Copies.notDue(far, 1000));
  }

  @Test
  void delay_queue_is_the_longest_that_does_not_exceed_the_delay() {
    assertEquals(1, Copies.queueOf(0));
    assertEquals(1, Copies.queueOf(1999));
    assertEquals(2, Copies.queueOf(2000));
    assertEquals(60, Copies.queueOf(299_999));
    assertEquals(900, Copies.queueOf(Long.MAX_VALUE));
  }

  @Test
  void copy_has_neither_an_expiration_nor_what_the_server_has_added() {
    BasicProperties original =
        properties(Map.of("CC", "x", "x-death", "x", "retry-at", 1L, "trace", text("a")))
            .messageId("1")
            .expiration("1")
            .userId("guest")
            .deliveryMode(1)
            .build();
    BasicProperties copy = Headers.copied(original, "dead-letter-reason", "parked");
    assertEquals(Map.of("trace", text("a"), "dead-letter-reason", "parked"), copy.getHeaders());
    assertEquals("1", copy.getMessageId());
    assertEquals(2, copy.getDeliveryMode());
    assertNull(copy.getExpiration());
    assertNull(copy.getUserId());
  }

  @Test
  void queues_have_no_delivery_limit() {
    for (String version : new String[] {"3.13.7", "", "x"}) {
      Map<String, Object> server = Map.of("version", text(version));
      assertFalse(Queues.unlimited(server).containsKey("x-delivery-limit"), version);
    }
    assertEquals(-1, Queues.unlimited(Map.of("version", text("4.0.5"))).get("x-delivery-limit"));
  }

  @Test
  void connection_that_recovers_by_itself_is_refused() {
    Connection recovers =
        (Connection)
            Proxy.newProxyInstance(
                getClass().getClassLoader(),
                new Class<?>[] {RecoverableConnection.class},
                (proxy, method, arguments) -> null);
    try (Ledger ledger = Ledger.builder("payments").endpoint("127.0.0.1:1").build()) {
      assertThrows(
          InvalidFieldException.class,
          () -> new QueueConsumer(ledger, recovers, "orders", (claim, message) -> null));
    }
  }
}
