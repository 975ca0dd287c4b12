package idempotencyledger.client.kafka;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** Copies of messages in other topics. */
final class Copies implements AutoCloseable {
  private final Producer<byte[], byte[]> producer;

  Copies(Producer<byte[], byte[]> producer) {
    this.producer = producer;
  }

  /**
   * Stores a copy with one more header. Its timestamp is new: by the original one the retention of
   * the topic might delete it immediately.
   *
   * @return an empty text where the brokers have confirmed it, else why they have not
   */
  String store(ConsumerRecord<byte[], byte[]> message, String topic, String name, String value) {
    ProducerRecord<byte[], byte[]> copy =
        new ProducerRecord<>(topic, message.key(), message.value());
    for (Header header : message.headers()) {
      if (!header.key().equals(TopicConsumer.DUE_HEADER) && !header.key().equals(name)) {
        copy.headers().add(header);
      }
    }
    copy.headers().add(name, value.getBytes(StandardCharsets.UTF_8));
    try {
      producer.send(copy).get();
      return "";
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return "the thread was interrupted";
    } catch (ExecutionException e) {
      return text(e.getCause());
    } catch (RuntimeException e) { // Of Kafka's client: nothing was sent.
      return text(e);
    }
  }

  /** Kafka's own text names topics, sizes and times, and nothing of a message. */
  static String text(Throwable error) {
    return error.getClass().getSimpleName() + ": " + error.getMessage();
  }

  @Override
  public void close() {
    producer.close(Duration.ZERO); // What was not confirmed is not awaited by any message.
  }
}
