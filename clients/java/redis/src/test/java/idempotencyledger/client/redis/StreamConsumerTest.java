package idempotencyledger.client.redis;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.GiveBack;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.args.Rawable;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.executors.CommandExecutor;

class StreamConsumerTest {
  private final GrantingServer service = new GrantingServer();
  private final FakeRedis redis = new FakeRedis();
  private Server server;
  private Ledger ledger;

  @BeforeEach
  void start() throws Exception {
    server = GrantingServer.start(service);
    ledger = Ledger.builder("payments").endpoint("127.0.0.1:" + server.getPort()).build();
  }

  @AfterEach
  void stop() {
    ledger.close();
    server.shutdownNow();
    redis.close();
  }

  private static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  private static Entry entry(String id, Object... parts) {
    List<byte[]> fields = new ArrayList<>();
    for (Object part : parts) {
      fields.add(part instanceof byte[] raw ? raw : bytes((String) part));
    }
    return new Entry(id, fields);
  }

  /** A Redis that hands out each entry once, and notes what changes the group. */
  private static final class FakeRedis extends UnifiedJedis {
    final Queue<List<Object>> fresh = new ConcurrentLinkedQueue<>();
    final Queue<List<Object>> idle = new ConcurrentLinkedQueue<>();
    final List<String> changes = new CopyOnWriteArrayList<>();
    volatile RuntimeException reading;
    volatile RuntimeException storing;

    FakeRedis() {
      super((CommandExecutor) null, null, RedisProtocol.RESP3, null);
    }

    /** A read has found nothing: the entries before it have ended, since one runs at a time. */
    volatile boolean empty;

    @Override
    public void close() {}

    @Override
    public Object executeCommand(CommandArguments call) {
      String name = text(call.get(0));
      List<byte[]> lost = List.of();
      switch (name) {
        case "XAUTOCLAIM" -> {
          List<Object> next = idle.poll();
          return List.of(bytes("0-0"), next == null ? List.of() : List.of(next), lost);
        }
        case "XREADGROUP" -> {
          if (reading != null) {
            throw reading;
          }
          List<Object> next = fresh.poll();
          empty = next == null;
          return next == null ? null : List.of(List.of(bytes("orders"), List.of(next)));
        }
        case "XGROUP" -> {
          throw new JedisDataException("BUSYGROUP Consumer Group name already exists");
        }
        default -> {
          if (name.equals("XADD") && storing != null) {
            throw storing;
          }
          List<String> parts = new ArrayList<>();
          call.forEach(part -> parts.add(text(part)));
          // The consumer's name differs from process to process.
          changes.add(String.join(" ", parts).replaceAll(" \\S+/\\d+ ", " me "));
          return 1L;
        }
      }
    }

    private static String text(Rawable part) {
      return new String(part.getRaw(), StandardCharsets.UTF_8);
    }
  }

  private static List<Object> answer(String id, String... parts) {
    List<byte[]> fields = new ArrayList<>();
    for (String part : parts) {
      fields.add(bytes(part));
    }
    return List.of(bytes(id), fields);
  }

  private StreamConsumer consumer(EntryHandler handler) {
    return new StreamConsumer(ledger, redis, "orders", handler);
  }

  private void run(StreamConsumer consumer) {
    consumer.run(() -> redis.empty);
  }

  @Test
  void name_is_that_of_the_event_or_the_field() {
    assertEquals(Named.of("orders", "1"), name(entry("1-0", "id", "1")));
    assertEquals(Named.of("shop", "2"), name(entry("1-0", "ce-id", "2", "ce-source", "shop")));
  }

  private static Named name(Entry entry) {
    return StreamConsumer.nameOf("orders", entry, new byte[0]);
  }

  @Test
  void field_that_is_not_utf8_names_nothing() {
    for (Entry each :
        List.of(
            entry("1-0"),
            entry("1-0", "id", ""),
            entry("1-0", "id", new byte[] {(byte) 0xff}),
            entry("1-0", "id", "1", "id", new byte[] {(byte) 0xff}))) {
      assertThrows(NoIdException.class, () -> name(each));
    }
  }

  @Test
  void fields_are_read_by_their_names() {
    Entry entry = entry("1-0", "a", "1", "b", "2", "a", "3");
    assertArrayEquals(bytes("3"), entry.field("a"));
    assertNull(entry.field("c"));
    assertEquals(Map.of("a", "3", "b", "2"), entry.texts());
  }

  @Test
  void completed_entry_is_acknowledged() {
    redis.fresh.add(answer("1-0", "id", "1"));
    run(consumer((claim, entry) -> null));
    assertEquals(List.of("XACK orders payments 1-0"), redis.changes);
  }

  @Test
  void entry_whose_consumer_is_gone_is_taken_before_new_ones() {
    redis.idle.add(answer("1-0", "id", "1"));
    redis.fresh.add(answer("2-0", "id", "2"));
    run(consumer((claim, entry) -> null));
    assertEquals(List.of("XACK orders payments 1-0", "XACK orders payments 2-0"), redis.changes);
  }

  @Test
  void dead_letter_is_copied_and_acknowledged() {
    redis.fresh.add(answer("1-0", "data", "x"));
    run(consumer((claim, entry) -> null));
    assertEquals(
        List.of("XADD orders:dead * data x dead-letter-reason NO_ID", "XACK orders payments 1-0"),
        redis.changes);
  }

  @Test
  void dead_letter_that_is_not_stored_stays_pending() {
    redis.storing = new JedisDataException("WRONGTYPE wrong kind of value");
    redis.fresh.add(answer("1-0", "data", "x"));
    run(consumer((claim, entry) -> null));
    assertEquals(List.of(), redis.changes);
  }

  @Test
  void entry_that_comes_later_stays_pending_with_an_idle_time() {
    redis.fresh.add(answer("1-0", "id", "1"));
    run(
        consumer(
            (claim, entry) -> {
              throw new GiveBack(); // For 50 ms: no delay is shorter.
            }));
    assertEquals(List.of("XCLAIM orders payments me 0 1-0 IDLE 59950 JUSTID"), redis.changes);
  }

  @Test
  void entry_is_kept_while_it_is_processed_and_while_it_waits_for_long() {
    Group group = new Group(redis, "orders", "payments");
    Idle idle = new Idle(group, Duration.ofSeconds(2));
    Entry running = entry("1-0");
    Entry late = entry("2-0");
    assertEquals(List.of(running, late), idle.begin(List.of(running, late)));
    assertEquals(List.of(), idle.begin(List.of(entry("1-0"))), "it is processed here already");
    idle.postpone(late, Duration.ofSeconds(5));
    idle.keep();
    idle.postpone(running, Duration.ofMillis(500));
    assertEquals(
        List.of(
            "XCLAIM orders payments me 0 2-0 IDLE 0 JUSTID",
            "XCLAIM orders payments me 0 1-0 2-0 IDLE 0 JUSTID",
            "XCLAIM orders payments me 0 1-0 IDLE 1500 JUSTID"),
        redis.changes);
  }

  @Test
  void entry_that_is_taken_again_is_not_ended_by_its_first_turn() {
    Idle idle = new Idle(new Group(redis, "orders", "payments"), Duration.ofSeconds(2));
    Entry first = entry("1-0");
    Entry again = entry("1-0");
    idle.begin(List.of(first));
    idle.postpone(first, Duration.ZERO);
    assertEquals(List.of(again), idle.begin(List.of(again)));
    idle.end(first);
    assertEquals(List.of(), idle.begin(List.of(entry("1-0"))));
  }

  @Test
  void stream_that_cannot_be_read_ends_the_run() {
    redis.reading = new JedisDataException("NOGROUP No such key 'orders'");
    StreamConsumer consumer = consumer((claim, entry) -> null);
    BooleanSupplier never = () -> false;
    assertThrows(JedisDataException.class, () -> consumer.run(never));
  }

  @Test
  void only_a_refusal_lasts() {
    assertTrue(Reading.lasts(new JedisDataException("NOPERM this user has no permissions")));
    assertFalse(Reading.lasts(new JedisDataException("LOADING Redis is loading the dataset")));
    assertFalse(Reading.lasts(new JedisConnectionException("Connection refused")));
    assertEquals("WRONGTYPE", Reading.text(new JedisDataException("WRONGTYPE of 'secret'")));
  }

  @Test
  void options_beyond_their_bounds_are_refused() {
    StreamConsumer consumer = consumer((claim, entry) -> null);
    for (Duration wrong : List.of(Duration.ofMillis(999), Duration.ofHours(12).plusMillis(1))) {
      assertThrows(InvalidFieldException.class, () -> consumer.visibility(wrong));
    }
    assertThrows(InvalidFieldException.class, () -> consumer.concurrency(1001));
    assertThrows(InvalidFieldException.class, () -> consumer.grace(Duration.ofSeconds(-1)));
  }
}
