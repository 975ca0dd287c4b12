package idempotencyledger.client.kafka;

import idempotencyledger.client.ClosedException;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.CloudEvents;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Processes the messages of a topic, as a member of a classic consumer group: {@code new
 * TopicConsumer(ledger, Map.of("bootstrap.servers", …), "orders", pay).run(stop::requested)}.
 *
 * <p>What each outcome becomes: ACK is an offset that is committed once all offsets before it are
 * done. RETRY_LATER pauses the partition until the message is done: it is processed again, from
 * memory, after the outcome's delay, and no later message of the partition begins meanwhile; or,
 * with {@link #retries}, it is a copy with the header {@value #DUE_HEADER}. DEAD_LETTER is a copy.
 * All in-sync replicas confirm a copy before the original counts as done: after a crash in between
 * there are two.
 *
 * <p>The consumer polls while handlers run: a handler may take longer than {@code
 * max.poll.interval.ms}. Of a partition that is revoked, what is done is committed, what has not
 * begun is given back, and what runs ends without a commit: the next owner has it again, and the
 * ledger knows what became of it.
 */
public final class TopicConsumer {
  /** The header of a dead letter that says why it is one. */
  public static final String REASON_HEADER = "dead-letter-reason";

  /**
   * The header of a copy in the retry topic that says when it is due, in decimal milliseconds since
   * 1970 UTC.
   */
  public static final String DUE_HEADER = "retry-at";

  private static final int CONCURRENCY_MAX = 1000;

  /**
   * The adapter's own: any other value commits what is not done, or changes the bytes of a body.
   */
  private static final List<String> OURS =
      List.of(
          "enable.auto.commit",
          "key.deserializer",
          "value.deserializer",
          "key.serializer",
          "value.serializer",
          "transactional.id");

  private final Ledger ledger;
  private final Map<String, Object> config;
  private final String topic;
  private final MessageHandler handler;
  private Map<String, Object> consumer = Map.of();
  private BiFunction<String, ConsumerRecord<byte[], byte[]>, Named> named = TopicConsumer::nameOf;
  private String retries;
  private String deadLetters;
  private int concurrency = 1;
  private Duration grace = Duration.ofSeconds(20);

  /**
   * A consumer of a topic.
   *
   * @param ledger the client; it must stay open until {@link #run} has returned
   * @param config the settings of Kafka's clients that the consumer and the producer of copies
   *     share: servers, TLS, SASL. {@code group.id} is the ledger's consumer unless it is set here
   * @param topic the topic
   * @param handler has the effect
   * @throws InvalidFieldException where {@code config} has a setting that the adapter makes itself
   */
  public TopicConsumer(Ledger ledger, Map<String, ?> config, String topic, MessageHandler handler) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.config = checked("config", config);
    this.topic = Objects.requireNonNull(topic, "topic");
    this.handler = Objects.requireNonNull(handler, "handler");
    this.deadLetters = topic + ".dead";
  }

  /**
   * More settings, of the consumer alone. By default {@code auto.offset.reset} is {@code earliest},
   * {@code isolation.level} is {@code read_committed}, and {@code max.poll.records} is 100.
   *
   * @param settings the settings, which replace those of {@code config}
   * @return this
   * @throws InvalidFieldException where there is a setting that the adapter makes itself
   */
  public TopicConsumer consumer(Map<String, ?> settings) {
    consumer = checked("consumer", settings);
    return this;
  }

  /**
   * The name of a message.
   *
   * @param named makes it of topic and message, also where the message is a copy in the retry
   *     topic. A {@link NoIdException} makes the message a dead letter, any other error ends the
   *     run. By default {@link #nameOf}
   * @return this
   */
  public TopicConsumer named(BiFunction<String, ConsumerRecord<byte[], byte[]>, Named> named) {
    this.named = Objects.requireNonNull(named, "named");
    return this;
  }

  /**
   * The topic of messages that are delivered later, which this consumer reads as well.
   *
   * @param topic it must exist, unless brokers create topics. Null, the default: the partition of
   *     such a message waits
   * @return this
   */
  public TopicConsumer retries(String topic) {
    retries = topic;
    return this;
  }

  /**
   * The topic of the dead letters.
   *
   * @param topic it must exist, unless brokers create topics; by default {@code TOPIC.dead}
   * @return this
   */
  public TopicConsumer deadLetters(String topic) {
    deadLetters = Objects.requireNonNull(topic, "topic");
    return this;
  }

  /**
   * How many messages are processed at the same time, also of one partition: each has a thread.
   *
   * @param concurrency 1 to 1000; with 1, the default, a partition is processed in its order
   * @return this
   * @throws InvalidFieldException where it is not within these bounds
   */
  public TopicConsumer concurrency(int concurrency) {
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
  public TopicConsumer grace(Duration grace) {
    if (grace.isNegative()) {
      throw new InvalidFieldException("grace", grace + " is negative");
    }
    this.grace = grace;
    return this;
  }

  /**
   * Takes messages until it is asked to stop, by {@code stop} or by an interrupt of this thread;
   * returns when those that it has begun are settled, and what is done is committed. It may be
   * called several times, and by several threads: each call is a member of the group.
   *
   * @param stop asked at least every half second, such as {@code shutdown::requested}
   * @throws KafkaException where no message can be read: authorization, another protocol of the
   *     group; or, for a minute, a corrupt message. While no broker answers, {@code run} waits for
   *     one
   * @throws ClosedException where the ledger's client is closed
   * @throws IllegalStateException where handlers still run after the grace: they may go on, and the
   *     process should end
   */
  public void run(BooleanSupplier stop) {
    Map<String, Object> copied = new HashMap<>(config);
    copied.put("acks", "all");
    copied.put("delivery.timeout.ms", 10_000);
    copied.put("request.timeout.ms", 5_000);
    copied.put("max.block.ms", 10_000L);
    copied.put("linger.ms", 0L);
    Map<String, Object> read = new HashMap<>();
    read.put("auto.offset.reset", "earliest");
    read.put("isolation.level", "read_committed");
    read.put("max.poll.records", 100);
    read.put("group.id", ledger.consumer());
    read.putAll(config);
    read.putAll(consumer);
    read.put("enable.auto.commit", false);
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    ByteArraySerializer raw = new ByteArraySerializer();
    Copies copies = new Copies(new KafkaProducer<>(copied, raw, raw));
    try (copies) {
      new Member(settings(), new KafkaConsumer<>(read, bytes, bytes), copies).run(stop);
    }
  }

  Member.Settings settings() {
    return new Member.Settings(
        ledger, topic, handler, named, retries, deadLetters, concurrency, grace);
  }

  /**
   * The name of a message: that of its CloudEvent, else the topic and its header {@code id}.
   *
   * <p>Neither the message's key nor its offset names it: a key chooses a partition, and a producer
   * that repeats a send gets another offset. A header that is not UTF-8 is not read: two ids must
   * not become one.
   *
   * @param topic the topic
   * @param message the message
   * @return its name
   * @throws NoIdException where it has none
   */
  public static Named nameOf(String topic, ConsumerRecord<byte[], byte[]> message) {
    Map<String, String> headers = Texts.of(message.headers());
    return CloudEvents.named(headers, Texts.body(message))
        .orElseGet(
            () -> {
              String id = headers.getOrDefault("id", "");
              if (id.isEmpty()) {
                throw new NoIdException(
                    "the message has neither the attributes of a CloudEvent nor a header `id`");
              }
              return Named.of(topic, id);
            });
  }

  private static Map<String, Object> checked(String field, Map<String, ?> settings) {
    for (String name : OURS) {
      if (settings.containsKey(name)) {
        throw new InvalidFieldException(field, name + " is set by the adapter: leave it out");
      }
    }
    if (!"classic".equalsIgnoreCase(String.valueOf(protocol(settings)))) {
      throw new InvalidFieldException(field, "group.protocol must be classic");
    }
    return new HashMap<>(settings);
  }

  private static Object protocol(Map<String, ?> settings) {
    return settings.containsKey("group.protocol") ? settings.get("group.protocol") : "classic";
  }
}
