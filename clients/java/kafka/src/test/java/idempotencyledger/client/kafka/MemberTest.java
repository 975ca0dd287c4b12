package idempotencyledger.client.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Ledger;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.MockConsumer;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupAuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class MemberTest {
  private static final TopicPartition PLACE = new TopicPartition("orders", 0);

  private final GrantingServer service = new GrantingServer();
  private final MockConsumer<byte[], byte[]> broker =
      new MockConsumer<>("earliest") {
        @Override
        public ConsumerRecords<byte[], byte[]> poll(Duration most) {
          MemberTest.pause(); // The mock's own poll does not wait.
          return super.poll(most);
        }
      };
  private final MockProducer<byte[], byte[]> copies =
      new MockProducer<>(false, null, new ByteArraySerializer(), new ByteArraySerializer());
  private final CountDownLatch stop = new CountDownLatch(1);
  private final CountDownLatch begun = new CountDownLatch(1);
  private final CountDownLatch end = new CountDownLatch(1);
  private final AtomicReference<Throwable> thrown = new AtomicReference<>();
  private Server server;
  private Ledger ledger;
  private Thread member;

  @BeforeEach
  void start() throws Exception {
    server = GrantingServer.start(service);
    ledger = Ledger.builder("payments").endpoint("127.0.0.1:" + server.getPort()).build();
  }

  @AfterEach
  void close() throws Exception {
    end.countDown();
    stop.countDown();
    member.join(10_000);
    ledger.close();
    server.shutdownNow();
  }

  private void run(Duration grace) {
    MessageHandler handler =
        (claim, message) -> {
          if (message.offset() == 1) {
            begun.countDown();
            end.await();
          }
          return null;
        };
    TopicConsumer consumer =
        new TopicConsumer(ledger, Map.of(), "orders", handler).concurrency(2).grace(grace);
    broker.updateBeginningOffsets(Map.of(PLACE, 0L));
    broker.schedulePollTask(() -> broker.rebalance(List.of(PLACE)));
    Member made = new Member(consumer.settings(), broker, new Copies(copies));
    member = new Thread(() -> made.run(() -> stop.getCount() == 0));
    member.setUncaughtExceptionHandler((thread, error) -> thrown.set(error));
    member.start();
    await("the partition is assigned", () -> broker.assignment().contains(PLACE));
  }

  private void publish(long offset, String id) {
    ConsumerRecord<byte[], byte[]> message =
        new ConsumerRecord<>("orders", 0, offset, null, new byte[0]);
    if (!id.isEmpty()) {
      message.headers().add("id", id.getBytes(StandardCharsets.UTF_8));
    }
    broker.addRecord(message);
  }

  private Long committed() {
    return broker.committed(Set.of(PLACE)).containsKey(PLACE)
        ? broker.committed(Set.of(PLACE)).get(PLACE).offset()
        : null;
  }

  private static void pause() {
    try {
      Thread.sleep(5);
    } catch (InterruptedException e) {
      throw new InterruptException(e);
    }
  }

  private static void await(String what, BooleanSupplier condition) {
    long most = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() < most, what);
      pause();
    }
  }

  @Test
  void handler_that_outlives_the_grace_is_reported() throws Exception {
    run(Duration.ofMillis(50));
    publish(0, "a");
    publish(1, "b");
    publish(2, "c");
    begun.await();
    await("the message after it is done", () -> service.asked.size() == 5);
    stop.countDown();
    member.join(10_000);
    assertTrue(broker.closed());
    assertTrue(thrown.get() instanceof IllegalStateException, () -> "thrown: " + thrown.get());
    assertTrue(thrown.get().getMessage().startsWith("1 handlers still run"));
  }

  @Test
  void done_messages_are_committed_while_it_runs() {
    run(Duration.ofSeconds(20));
    publish(0, "a");
    publish(1, "b");
    await("the first message is committed", () -> Long.valueOf(1).equals(committed()));
    end.countDown();
    await("the second message is committed", () -> Long.valueOf(2).equals(committed()));
    assertNull(thrown.get());
  }

  @Test
  void dead_letter_is_committed_after_its_copy_is_confirmed() {
    run(Duration.ofSeconds(20));
    publish(0, "");
    await("a copy is sent", () -> copies.history().size() == 1);
    ProducerRecord<byte[], byte[]> copy = copies.history().get(0);
    assertEquals("orders.dead", copy.topic());
    assertEquals(
        "NO_ID",
        new String(
            copy.headers().lastHeader(TopicConsumer.REASON_HEADER).value(),
            StandardCharsets.UTF_8));
    copies.errorNext(new KafkaException("not enough replicas"));
    await("the copy is sent again", () -> copies.history().size() == 2);
    assertNull(committed());
    copies.completeNext();
    await("the message is committed", () -> Long.valueOf(1).equals(committed()));
  }

  @Test
  void attempt_at_another_member_is_asked_for_before_its_lease_ends() {
    run(Duration.ofSeconds(20));
    service.heldElsewhere = true;
    publish(0, "a");
    await("the message is claimed", () -> !service.asked.isEmpty());
    service.heldElsewhere = false;
    await("the message is committed", () -> Long.valueOf(1).equals(committed()));
  }

  @Test
  void refusal_of_the_broker_ends_the_run() throws Exception {
    run(Duration.ofSeconds(20));
    broker.setPollException(new GroupAuthorizationException("payments"));
    member.join(10_000);
    assertFalse(member.isAlive());
    assertTrue(thrown.get() instanceof GroupAuthorizationException);
    assertTrue(broker.closed());
  }

  @Test
  void other_error_of_a_poll_passes() {
    run(Duration.ofSeconds(20));
    broker.setPollException(new KafkaException("the topic does not exist"));
    publish(0, "a");
    await("a later message is committed", () -> Long.valueOf(1).equals(committed()));
    assertNull(thrown.get());
  }

  @Test
  void interrupt_ends_the_run_in_good_order() throws Exception {
    run(Duration.ofSeconds(20));
    publish(0, "a");
    await("the message is done", () -> service.asked.size() == 2);
    member.interrupt();
    member.join(10_000);
    assertFalse(member.isAlive());
    assertNull(thrown.get());
  }
}
