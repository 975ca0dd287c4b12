package idempotencyledger.client.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class TopicConsumerTest {
  private static Named name(String... headers) {
    ConsumerRecord<byte[], byte[]> message =
        new ConsumerRecord<>("orders", 0, 1, "key".getBytes(StandardCharsets.UTF_8), null);
    for (int at = 0; at < headers.length; at += 2) {
      byte[] value = headers[at + 1].getBytes(StandardCharsets.ISO_8859_1);
      message.headers().add(headers[at], value);
    }
    return TopicConsumer.nameOf("orders", message);
  }

  @Test
  void name_is_that_of_the_event_or_the_header() {
    assertEquals(Named.of("orders", "1"), name("id", "1"));
    assertEquals(Named.of("orders", "2"), name("id", "1", "id", "2"));
    assertEquals(Named.of("shop", "2"), name("id", "1", "ce_id", "2", "ce_source", "shop"));
  }

  @Test
  void message_without_an_id_has_no_name() {
    assertThrows(NoIdException.class, () -> name());
    assertThrows(NoIdException.class, () -> name("id", ""));
    assertThrows(NoIdException.class, () -> name("id", "\u00ff"));
    assertThrows(NoIdException.class, () -> name("id", "1", "id", "\u00ff"));
  }

  @Test
  void wait_of_a_copy_is_that_of_its_header() {
    ConsumerRecord<byte[], byte[]> copy =
        PartitionsTest.record(new TopicPartition("orders.retry", 0), 1);
    assertEquals(0, Texts.wait(copy));
    long due = System.currentTimeMillis() + 60_000;
    copy.headers()
        .add(TopicConsumer.DUE_HEADER, Long.toString(due).getBytes(StandardCharsets.UTF_8));
    long wait = Texts.wait(copy);
    assertTrue(wait > 50_000 && wait <= 60_000, () -> "waits " + wait);
    copy.headers().add(TopicConsumer.DUE_HEADER, "soon".getBytes(StandardCharsets.UTF_8));
    assertEquals(0, Texts.wait(copy));
  }

  @Test
  void settings_that_would_commit_what_is_not_done_are_refused() {
    try (Ledger ledger = Ledger.builder("payments").endpoint("127.0.0.1:1").build()) {
      for (Map<String, String> settings :
          List.of(
              Map.of("enable.auto.commit", "true"),
              Map.of("group.protocol", "consumer"),
              Map.of("value.deserializer", "x"))) {
        assertThrows(
            InvalidFieldException.class,
            () -> new TopicConsumer(ledger, settings, "orders", (claim, message) -> null));
      }
      TopicConsumer consumer =
          new TopicConsumer(ledger, Map.of(), "orders", (claim, message) -> null);
      assertThrows(
          InvalidFieldException.class,
          () -> consumer.consumer(Map.of("enable.auto.commit", false)));
      assertThrows(InvalidFieldException.class, () -> consumer.concurrency(0));
      assertEquals("orders.dead", consumer.settings().deadLetters());
    }
  }
}
