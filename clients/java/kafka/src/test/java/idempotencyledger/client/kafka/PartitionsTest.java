package idempotencyledger.client.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.kafka.Partition.Message;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;

class PartitionsTest {
  private static final TopicPartition PLACE = new TopicPartition("orders", 0);
  private static final TopicPartition OTHER = new TopicPartition("orders", 1);
  private static final long MILLISECOND = 1_000_000;

  private final Partitions partitions = new Partitions(4);

  PartitionsTest() {
    partitions.assign(List.of(PLACE, OTHER));
  }

  static ConsumerRecord<byte[], byte[]> record(TopicPartition place, long offset) {
    return new ConsumerRecord<>(place.topic(), place.partition(), offset, null, new byte[0]);
  }

  private Message begun(long offset) {
    partitions.take(record(PLACE, offset), 0);
    return partitions.begin();
  }

  private Long committable() {
    OffsetAndMetadata found = partitions.offsets().get(PLACE);
    return found == null ? null : found.offset();
  }

  @Test
  void offset_is_never_committed_past_a_message_that_is_not_done() {
    Message first = begun(3);
    Message second = begun(4);
    Message third = begun(7);
    partitions.done(third);
    assertNull(committable());
    partitions.done(first);
    assertEquals(4, committable());
    partitions.done(second);
    assertEquals(8, committable());
    Map<TopicPartition, OffsetAndMetadata> sent = partitions.offsets();
    partitions.committing(sent);
    assertNull(committable());
    partitions.uncommitted(sent);
    assertEquals(8, committable());
  }

  @Test
  void postponed_message_holds_up_its_partition_alone() throws Exception {
    Message first = begun(1);
    partitions.take(record(PLACE, 2), 0);
    partitions.take(record(OTHER, 1), 0);
    partitions.postpone(first, 50 * MILLISECOND);
    assertEquals(List.of(PLACE), partitions.steer().pause());
    assertEquals(OTHER, partitions.begin().partition.place);
    assertNull(partitions.begin());
    assertTrue(partitions.patience(500, 100) <= 50);
    Thread.sleep(60);
    assertEquals(first, partitions.begin());
    partitions.done(first);
    assertEquals(2, committable());
    assertEquals(List.of(PLACE), partitions.steer().resume());
    assertEquals(2, partitions.begin().record.offset());
  }

  @Test
  void concurrency_bounds_messages_of_all_partitions_which_take_turns() {
    for (int offset = 0; offset < 4; offset++) {
      partitions.take(record(PLACE, offset), 0);
      partitions.take(record(OTHER, offset), 0);
    }
    assertEquals(PLACE, partitions.begin().partition.place);
    Message second = partitions.begin();
    assertEquals(OTHER, second.partition.place);
    assertEquals(PLACE, partitions.begin().partition.place);
    assertEquals(OTHER, partitions.begin().partition.place);
    assertNull(partitions.begin());
    partitions.leave(second);
    assertEquals(PLACE, partitions.begin().partition.place);
  }

  @Test
  void revoked_partition_is_not_committed_any_more() {
    Message first = begun(1);
    Message second = begun(2);
    partitions.done(first);
    assertEquals(2, partitions.revoke(List.of(PLACE)).get(PLACE).offset());
    partitions.done(second);
    assertNull(committable());
    partitions.assign(List.of(PLACE));
    Message again = begun(2);
    assertFalse(again.partition.revoked);
    partitions.done(again);
    assertEquals(3, committable());
  }

  @Test
  void log_that_begins_again_is_not_committed_by_what_was_taken_before() {
    Message former = begun(9);
    Message first = begun(0);
    assertTrue(former.partition.revoked);
    partitions.done(former);
    assertNull(committable());
    partitions.done(first);
    assertEquals(1, committable());
  }

  @Test
  void partition_far_ahead_of_its_oldest_message_is_paused() {
    Message oldest = begun(0);
    partitions.done(begun(Partition.AHEAD - 1));
    assertEquals(List.of(), partitions.steer().pause());
    partitions.done(begun(Partition.AHEAD));
    assertEquals(List.of(PLACE), partitions.steer().pause());
    partitions.done(oldest);
    assertEquals(List.of(PLACE), partitions.steer().resume());
  }

  @Test
  void no_more_is_taken_until_half_of_what_waits_has_begun() throws Exception {
    for (int offset = 0; offset < 100; offset++) {
      partitions.take(record(PLACE, offset), 0);
    }
    assertFalse(partitions.awaitRoom(1));
    for (int count = 0; count < 50; count++) {
      partitions.done(partitions.begin());
    }
    assertTrue(partitions.awaitRoom(1));
  }

  @Test
  void nothing_begins_after_a_stop() throws Exception {
    partitions.take(record(PLACE, 1), 0);
    partitions.stop();
    assertNull(partitions.begin());
    assertFalse(partitions.awaitRoom(1));
    assertEquals(2, partitions.steer().pause().size());
  }
}
