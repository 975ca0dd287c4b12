package idempotencyledger.client.kafka;

import idempotencyledger.client.InboxMessage;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;

/** What a message says in its headers. */
final class Texts {
  private Texts() {}

  /** The last header of each name, unless it is not UTF-8. */
  static Map<String, String> of(Headers headers) {
    Map<String, String> found = new HashMap<>();
    for (Header header : headers) {
      byte[] value = header.value() == null ? new byte[0] : header.value();
      try {
        found.put(
            header.key(),
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(value)).toString());
      } catch (CharacterCodingException e) {
        found.remove(header.key());
      }
    }
    return found;
  }

  /** The message's value; no bytes where it is a tombstone. */
  static byte[] body(ConsumerRecord<byte[], byte[]> message) {
    return message.value() == null ? new byte[0] : message.value();
  }

  /** The message for the inbox, with its place in the topic. */
  static InboxMessage inboxMessage(ConsumerRecord<byte[], byte[]> message) {
    InboxMessage found =
        InboxMessage.of(body(message))
            .withTopic(message.topic())
            .withPlace(message.partition(), message.offset())
            .withMessageKey(message.key());
    for (Header header : message.headers()) {
      found = found.withHeader(header.key(), header.value());
    }
    return found;
  }

  /** Milliseconds until a copy in the retry topic is due; 0 where its header says nothing. */
  static long wait(ConsumerRecord<byte[], byte[]> message) {
    String due = of(message.headers()).getOrDefault(TopicConsumer.DUE_HEADER, "");
    return due.matches("[0-9]{1,15}") ? Long.parseLong(due) - System.currentTimeMillis() : 0;
  }
}
