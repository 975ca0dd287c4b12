package idempotencyledger.client.rabbitmq;

import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.LongString;
import idempotencyledger.client.InboxMessage;
import idempotencyledger.client.brokers.NoIdException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Date;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/** What a message says in its properties. */
final class Headers {
  /**
   * The package for Python marks the copy of a message without an id, since its client gives each
   * message one.
   */
  private static final String WITHOUT_ID = "without-message-id";

  /** What the client makes of bytes that are not UTF-8. */
  private static final char REPLACED = '\ufffd';

  /**
   * Headers that a copy does not have: CC and BCC would send it to further queues, and the others
   * are the server's account of the original.
   */
  private static final Set<String> LEFT_OUT =
      Set.of(
          "CC",
          "BCC",
          "x-death",
          "x-delivery-count",
          "x-acquired-count",
          "x-first-death-exchange",
          "x-first-death-queue",
          "x-first-death-reason",
          "x-last-death-exchange",
          "x-last-death-queue",
          "x-last-death-reason",
          QueueConsumer.DUE_HEADER);

  private Headers() {}

  private static Map<String, Object> all(BasicProperties message) {
    return message.getHeaders() == null ? Map.of() : message.getHeaders();
  }

  /** The headers that have one text in every language, and the content-type. */
  static Map<String, String> texts(BasicProperties message) {
    Map<String, String> found = new HashMap<>();
    all(message)
        .forEach(
            (name, value) -> {
              String text = text(value);
              if (text != null) {
                found.put(name, text);
              }
            });
    if (message.getContentType() != null) {
      found.put("content-type", message.getContentType());
    }
    return found;
  }

  /** The message for the inbox: of its headers those that have one text in every language. */
  static InboxMessage inboxMessage(String queue, Delivery delivery) {
    BasicProperties properties = delivery.getProperties();
    InboxMessage found = InboxMessage.of(delivery.getBody()).withTopic(queue);
    if (properties.getContentType() != null) {
      found = found.withContentType(properties.getContentType());
    }
    if (properties.getType() != null) {
      found = found.withEventType(properties.getType());
    }
    for (String name : new TreeSet<>(all(properties).keySet())) {
      String text = text(all(properties).get(name));
      if (text != null) {
        found = found.withHeader(name, text.getBytes(StandardCharsets.UTF_8));
      }
    }
    return found;
  }

  private static String text(Object value) {
    if (value instanceof LongString bytes) {
      try {
        return StandardCharsets.UTF_8
            .newDecoder()
            .decode(ByteBuffer.wrap(bytes.getBytes()))
            .toString();
      } catch (CharacterCodingException e) {
        return null;
      }
    }
    if (value instanceof Date date) {
      return date.toInstant().toString();
    }
    boolean whole =
        value instanceof Byte
            || value instanceof Short
            || value instanceof Integer
            || value instanceof Long;
    return whole || value instanceof String ? value.toString() : null;
  }

  /** The id that the producer gave. */
  static String id(BasicProperties message) {
    String id = message.getMessageId();
    if (id == null || id.isEmpty() || all(message).containsKey(WITHOUT_ID)) {
      throw new NoIdException(
          "the message has neither the attributes of a CloudEvent nor the property message_id");
    }
    if (id.indexOf(REPLACED) >= 0) {
      throw new NoIdException("the property message_id is not UTF-8");
    }
    return id;
  }

  /**
   * When a postponed message is due, in milliseconds since 1970; 0 where its header says nothing.
   */
  static long due(BasicProperties message) {
    return all(message).get(QueueConsumer.DUE_HEADER) instanceof Long due ? Math.max(0, due) : 0;
  }

  /**
   * The properties of a copy with one more header: without an expiration, which would drop it, and
   * without a user, who may be another one.
   */
  static BasicProperties copied(BasicProperties message, String name, Object value) {
    Map<String, Object> headers = new HashMap<>(all(message));
    headers.keySet().removeAll(LEFT_OUT);
    headers.put(name, value);
    return new BasicProperties.Builder()
        .headers(headers)
        .contentType(message.getContentType())
        .contentEncoding(message.getContentEncoding())
        .deliveryMode(2)
        .priority(message.getPriority())
        .correlationId(message.getCorrelationId())
        .replyTo(message.getReplyTo())
        .messageId(message.getMessageId())
        .timestamp(message.getTimestamp())
        .type(message.getType())
        .appId(message.getAppId())
        .build();
  }
}
