package idempotencyledger.client.redis;

import idempotencyledger.client.ClosedException;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.CloudEvents;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisException;

/**
 * Processes the entries of a stream, as one of a consumer group: {@code new StreamConsumer(ledger,
 * redis, "orders", pay).run(stop::requested)}. It needs Redis 7, or what speaks its protocol.
 *
 * <p>What each outcome becomes: ACK is XACK; RETRY_LATER leaves the entry pending, with an idle
 * time that lets any consumer of the group take it after the outcome's delay; DEAD_LETTER is a copy
 * (XADD), then XACK. While an entry is processed its idle time is set back at a third of the
 * visibility, and while it waits for a delay that is longer than the visibility.
 */
public final class StreamConsumer {
  /** The field of a dead letter that says why it is one. */
  public static final String REASON_FIELD = "dead-letter-reason";

  private static final Duration VISIBILITY_MIN = Duration.ofSeconds(1);
  private static final Duration VISIBILITY_MAX = Duration.ofHours(12);
  private static final int CONCURRENCY_MAX = 1000;

  /** Makes the name of an entry. */
  @FunctionalInterface
  public interface Naming {
    /**
     * The name of an entry.
     *
     * @param stream the key of the stream
     * @param entry the entry
     * @param body the bytes of its body, of which the fingerprint is made
     * @return its name
     * @throws NoIdException where it has none: the entry is a dead letter
     */
    Named name(String stream, Entry entry, byte[] body);
  }

  private final Ledger ledger;
  private final UnifiedJedis redis;
  private final String stream;
  private final EntryHandler handler;
  private Naming named = StreamConsumer::nameOf;
  private String group;
  private String body = "data";
  private String deadLetters;
  private Duration visibility = Duration.ofSeconds(60);
  private int concurrency = 1;
  private Duration grace = Duration.ofSeconds(20);

  /**
   * A consumer of a stream.
   *
   * @param ledger the client; it must stay open until {@link #run} has returned
   * @param redis a client with a pool, such as {@code RedisClient}, of at least {@code concurrency}
   *     and two connections, that waits for an answer for at least two seconds
   * @param stream the key of the stream
   * @param handler has the effect
   */
  public StreamConsumer(Ledger ledger, UnifiedJedis redis, String stream, EntryHandler handler) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.redis = Objects.requireNonNull(redis, "redis");
    this.stream = Objects.requireNonNull(stream, "stream");
    this.handler = Objects.requireNonNull(handler, "handler");
    group = ledger.consumer();
    deadLetters = stream + ":dead";
  }

  /**
   * The name of an entry.
   *
   * @param named makes it. A {@link NoIdException} makes the entry a dead letter, any other error
   *     ends the run. By default {@link #nameOf}
   * @return this
   */
  public StreamConsumer named(Naming named) {
    this.named = Objects.requireNonNull(named, "named");
    return this;
  }

  /**
   * The consumer group, which is made where it is missing, and then begins with the first entry.
   *
   * @param group by default the ledger's consumer
   * @return this
   */
  public StreamConsumer group(String group) {
    this.group = Objects.requireNonNull(group, "group");
    return this;
  }

  /**
   * The field of which the fingerprint is made, and that may have an event as JSON.
   *
   * @param field by default {@code data}
   * @return this
   */
  public StreamConsumer body(String field) {
    body = Objects.requireNonNull(field, "field");
    return this;
  }

  /**
   * The stream of the dead letters.
   *
   * @param stream its key; by default {@code STREAM:dead}
   * @return this
   */
  public StreamConsumer deadLetters(String stream) {
    deadLetters = Objects.requireNonNull(stream, "stream");
    return this;
  }

  /**
   * How long an entry is idle before another consumer takes it, whose consumer is gone.
   *
   * @param visibility 1 s to 12 h; by default 60 s. Best longer than lease and grace, and the same
   *     for all consumers of the group
   * @return this
   * @throws InvalidFieldException where it is not within these bounds
   */
  public StreamConsumer visibility(Duration visibility) {
    if (visibility.compareTo(VISIBILITY_MIN) < 0 || visibility.compareTo(VISIBILITY_MAX) > 0) {
      throw new InvalidFieldException(
          "visibility", "is " + visibility + "; 1 s to 12 h are allowed");
    }
    this.visibility = visibility;
    return this;
  }

  /**
   * How many entries are processed at the same time: each has a thread.
   *
   * @param concurrency 1 to 1000; by default 1
   * @return this
   * @throws InvalidFieldException where it is not within these bounds
   */
  public StreamConsumer concurrency(int concurrency) {
    if (concurrency < 1 || concurrency > CONCURRENCY_MAX) {
      throw new InvalidFieldException(
          "concurrency", "is " + concurrency + "; 1 to " + CONCURRENCY_MAX + " are allowed");
    }
    this.concurrency = concurrency;
    return this;
  }

  /**
   * How long {@link #run} waits for running handlers after it was asked to stop.
   *
   * @param grace by default 20 s
   * @return this
   * @throws InvalidFieldException where it is negative
   */
  public StreamConsumer grace(Duration grace) {
    if (grace.isNegative()) {
      throw new InvalidFieldException("grace", grace + " is negative");
    }
    this.grace = grace;
    return this;
  }

  /**
   * Takes entries until it is asked to stop, by {@code stop} or by an interrupt of this thread;
   * returns when those that it has begun are settled. What was read and not begun is given back. It
   * may be called several times, and by several threads.
   *
   * @param stop asked at least every second, such as {@code shutdown::requested}
   * @throws JedisException where Redis cannot be reached at the beginning, or refuses to read: the
   *     group was deleted, or a permission is missing. While Redis does not answer later, {@code
   *     run} tries again
   * @throws ClosedException where the ledger's client is closed
   * @throws IllegalStateException where handlers still run after the grace: they may go on, and the
   *     process should end
   */
  public void run(BooleanSupplier stop) {
    new Reading(settings(), redis).run(stop);
  }

  Reading.Settings settings() {
    return new Reading.Settings(
        ledger, stream, group, handler, named, body, deadLetters, visibility, concurrency, grace);
  }

  /**
   * The name of an entry: that of its CloudEvent (fields {@code ce-id} and {@code ce-source}, or
   * {@code content-type} and the body), else the stream and its field {@code id}.
   *
   * <p>The id that Redis gives to an entry names nothing: a producer that repeats a send gets
   * another one. A field that is not UTF-8 is not read: two ids must not become one.
   *
   * @param stream the key of the stream
   * @param entry the entry
   * @param body the bytes of its body
   * @return its name
   * @throws NoIdException where it has none
   */
  public static Named nameOf(String stream, Entry entry, byte[] body) {
    Map<String, String> fields = entry.texts();
    return CloudEvents.named(fields, body)
        .orElseGet(
            () -> {
              String id = fields.getOrDefault("id", "");
              if (id.isEmpty()) {
                throw new NoIdException(
                    "the entry has neither the attributes of a CloudEvent nor a field `id`");
              }
              return Named.of(stream, id);
            });
  }
}
