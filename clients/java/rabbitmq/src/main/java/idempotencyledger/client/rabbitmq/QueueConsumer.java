package idempotencyledger.client.rabbitmq;

import com.rabbitmq.client.Connection;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.RecoverableConnection;
import idempotencyledger.client.ClosedException;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.CloudEvents;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;

/**
 * Processes the messages of a quorum queue: {@code new QueueConsumer(ledger, connection, "orders",
 * pay).run(stop::requested)}.
 *
 * <p>What each outcome becomes: ACK is an ack; RETRY_LATER is a copy in a delay queue ({@code
 * QUEUE.later.5s} and so on), whose time to live brings it back, then an ack; DEAD_LETTER is a copy
 * in another queue, then an ack. The server confirms a copy, and that a queue has it, before the
 * original is acknowledged: after a crash in between there are two, and the ledger lets one have
 * the effect. A longer delay is spent in several turns: the header {@value #DUE_HEADER} of a copy
 * says when it is due, and a consumer postpones a copy that is not due yet, without asking the
 * ledger.
 *
 * <p>A message is never given back by nack: RabbitMQ counts those, and drops or dead-letters a
 * message of a quorum queue that was given back more often than its delivery limit.
 */
public final class QueueConsumer {
  /** The header of a dead letter that says why it is one. */
  public static final String REASON_HEADER = "dead-letter-reason";

  /**
   * The header of a postponed message that says when it is due, in milliseconds since 1970 UTC, a
   * signed 64-bit integer.
   */
  public static final String DUE_HEADER = "retry-at";

  private static final int CONCURRENCY_MAX = 1000;

  private final Ledger ledger;
  private final Connection connection;
  private final String queue;
  private final MessageHandler handler;
  private BiFunction<String, Delivery, Named> named = QueueConsumer::nameOf;
  private String deadLetters;
  private int concurrency = 1;
  private Duration grace = Duration.ofSeconds(20);

  /**
   * A consumer of a queue.
   *
   * @param ledger the client; it must stay open until {@link #run} has returned
   * @param connection one without automatic recovery, which a {@code ConnectionFactory} makes after
   *     {@code setAutomaticRecoveryEnabled(false)}: after a recovery a copy could count as
   *     confirmed that the server never had
   * @param queue the name of the queue. One that does not exist is declared as a quorum queue
   *     without a delivery limit; one that exists is taken as it is. Set {@code x-delivery-limit}
   *     to -1 where the server is RabbitMQ 4 or later, whose default of 20 drops messages
   * @param handler has the effect; it must end within the server's {@code consumer_timeout}, by
   *     default 30 minutes
   * @throws InvalidFieldException where the connection recovers by itself
   */
  public QueueConsumer(Ledger ledger, Connection connection, String queue, MessageHandler handler) {
    this.ledger = Objects.requireNonNull(ledger, "ledger");
    this.connection = Objects.requireNonNull(connection, "connection");
    this.queue = Objects.requireNonNull(queue, "queue");
    this.handler = Objects.requireNonNull(handler, "handler");
    this.deadLetters = queue + ".dead";
    if (connection instanceof RecoverableConnection) {
      throw new InvalidFieldException(
          "connection",
          "recovers by itself: a copy could count as confirmed that the server never had; call"
              + " ConnectionFactory.setAutomaticRecoveryEnabled(false)");
    }
  }

  /**
   * The name of a message.
   *
   * @param named makes it of queue and message. A {@link NoIdException} makes the message a dead
   *     letter, any other error ends the run. By default {@link #nameOf}
   * @return this
   */
  public QueueConsumer named(BiFunction<String, Delivery, Named> named) {
    this.named = Objects.requireNonNull(named, "named");
    return this;
  }

  /**
   * The queue of the dead letters, which is declared as the queue is.
   *
   * @param queue by default {@code QUEUE.dead}
   * @return this
   */
  public QueueConsumer deadLetters(String queue) {
    deadLetters = Objects.requireNonNull(queue, "queue");
    return this;
  }

  /**
   * How many messages are processed at the same time, which is also the prefetch: each has a
   * thread.
   *
   * @param concurrency 1 to 1000; by default 1
   * @return this
   * @throws InvalidFieldException where it is not within these bounds
   */
  public QueueConsumer concurrency(int concurrency) {
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
  public QueueConsumer grace(Duration grace) {
    if (grace.isNegative()) {
      throw new InvalidFieldException("grace", grace + " is negative");
    }
    this.grace = grace;
    return this;
  }

  /**
   * Takes messages until it is asked to stop, by {@code stop} or by an interrupt of this thread;
   * returns when those that it has begun are settled. What was fetched and not begun returns to the
   * queue. It may be called several times, and by several threads.
   *
   * @param stop asked ten times a second, such as {@code shutdown::requested}
   * @throws IOException where the connection is lost, the queue deleted or refused: connect again,
   *     and make another consumer
   * @throws ClosedException where the ledger's client is closed
   * @throws IllegalStateException where handlers still run after the grace: they may go on, and the
   *     process should end
   */
  public void run(BooleanSupplier stop) throws IOException {
    new Subscription(settings(), connection).run(stop);
  }

  Subscription.Settings settings() {
    return new Subscription.Settings(
        ledger, queue, handler, named, deadLetters, concurrency, grace);
  }

  /**
   * The name of a message: that of its CloudEvent, else the queue and the property {@code
   * message_id}.
   *
   * @param queue the queue
   * @param message the message
   * @return its name
   * @throws NoIdException where it has none, or one that is not UTF-8: two ids must not become one
   */
  public static Named nameOf(String queue, Delivery message) {
    Map<String, String> headers = Headers.texts(message.getProperties());
    return CloudEvents.named(headers, message.getBody())
        .orElseGet(() -> Named.of(queue, Headers.id(message.getProperties())));
  }
}
