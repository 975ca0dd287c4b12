package idempotencyledger.client;

import com.google.protobuf.ByteString;
import idempotencyledger.client.proto.Message;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;

/**
 * What a broker delivered: a payload, and what came with it. The ledger keeps it as it is, and
 * hands it to a worker. Immutable: each {@code with} method makes another one.
 *
 * <p>A message beyond a bound is at fault itself: it is not sent, and its outcome is DEAD_LETTER
 * with an {@link InvalidFieldException} as its error.
 */
public final class InboxMessage {
  private static final int PAYLOAD_MAX = 256 * 1024;
  private static final int HEADERS_MAX = 64;
  private static final int HEADERS_BYTES_MAX = 16 * 1024;
  private static final int NAME_MAX = 256;
  private static final int KEY_MAX = 512;
  private static final int TEXT_MAX = 128;

  private final Message message;

  private InboxMessage(Message message) {
    this.message = message;
  }

  /**
   * One header of a message.
   *
   * @param name 1 to 256 bytes of UTF-8
   * @param value any bytes; all headers together have at most 16 KiB, names included
   */
  public record Header(String name, byte[] value) {}

  /**
   * A message without anything else.
   *
   * @param payload the payload as the broker has it, at most 256 KiB
   * @return the message
   * @throws InvalidFieldException where the payload is null
   */
  public static InboxMessage of(byte[] payload) {
    if (payload == null) {
      throw new InvalidFieldException("message.payload", "must not be null");
    }
    return new InboxMessage(Message.newBuilder().setPayload(ByteString.copyFrom(payload)).build());
  }

  static InboxMessage of(Message message) {
    return new InboxMessage(message);
  }

  /**
   * With one more header.
   *
   * @param name its name
   * @param value its value; null: no bytes
   * @return the message
   */
  public InboxMessage withHeader(String name, byte[] value) {
    ByteString bytes = value == null ? ByteString.EMPTY : ByteString.copyFrom(value);
    Message.Builder made = message.toBuilder();
    made.addHeadersBuilder().setName(name).setValue(bytes);
    return new InboxMessage(made.build());
  }

  /**
   * With the topic, queue or stream that it came from.
   *
   * @param topic at most 256 bytes
   * @return the message
   */
  public InboxMessage withTopic(String topic) {
    return new InboxMessage(message.toBuilder().setTopic(topic).build());
  }

  /**
   * With its place in the topic.
   *
   * @param partition the partition
   * @param offset the offset in it
   * @return the message
   */
  public InboxMessage withPlace(int partition, long offset) {
    return new InboxMessage(message.toBuilder().setPartition(partition).setOffset(offset).build());
  }

  /**
   * With the broker's own key.
   *
   * @param key at most 512 bytes; null: none
   * @return the message
   */
  public InboxMessage withMessageKey(byte[] key) {
    ByteString bytes = key == null ? ByteString.EMPTY : ByteString.copyFrom(key);
    return new InboxMessage(message.toBuilder().setMessageKey(bytes).build());
  }

  /**
   * With the kind of the message, a label of the server's metrics.
   *
   * @param eventType such as the {@code type} of a CloudEvent; use few different ones
   * @return the message
   */
  public InboxMessage withEventType(String eventType) {
    return new InboxMessage(message.toBuilder().setEventType(eventType).build());
  }

  /**
   * With the version of its schema.
   *
   * @param eventVersion at most 128 bytes
   * @return the message
   */
  public InboxMessage withEventVersion(String eventVersion) {
    return new InboxMessage(message.toBuilder().setEventVersion(eventVersion).build());
  }

  /**
   * With the media type of the payload.
   *
   * @param contentType at most 128 bytes
   * @return the message
   */
  public InboxMessage withContentType(String contentType) {
    return new InboxMessage(message.toBuilder().setContentType(contentType).build());
  }

  /**
   * The payload.
   *
   * @return a copy of it
   */
  public byte[] payload() {
    return message.getPayload().toByteArray();
  }

  /**
   * The headers, in their order.
   *
   * @return copies of them
   */
  public List<Header> headers() {
    List<Header> found = new ArrayList<>();
    message
        .getHeadersList()
        .forEach(each -> found.add(new Header(each.getName(), each.getValue().toByteArray())));
    return found;
  }

  /**
   * The topic, queue or stream that it came from.
   *
   * @return its name; empty where it is not known
   */
  public String topic() {
    return message.getTopic();
  }

  /**
   * The partition.
   *
   * @return its number; empty where the broker does not have it
   */
  public OptionalInt partition() {
    return message.hasPartition() ? OptionalInt.of(message.getPartition()) : OptionalInt.empty();
  }

  /**
   * The offset or sequence number.
   *
   * @return the number; empty where the broker does not have it
   */
  public OptionalLong offset() {
    return message.hasOffset() ? OptionalLong.of(message.getOffset()) : OptionalLong.empty();
  }

  /**
   * The broker's own key.
   *
   * @return a copy of it; of no bytes where there is none
   */
  public byte[] messageKey() {
    return message.getMessageKey().toByteArray();
  }

  /**
   * What kind of message it is.
   *
   * @return the kind; empty where it is not known
   */
  public String eventType() {
    return message.getEventType();
  }

  /**
   * The version of its schema.
   *
   * @return the version; empty where it is not known
   */
  public String eventVersion() {
    return message.getEventVersion();
  }

  /**
   * The media type of the payload.
   *
   * @return the type; empty where it is not known
   */
  public String contentType() {
    return message.getContentType();
  }

  Message sent() {
    return message;
  }

  /** Why the ledger would refuse the message. */
  Optional<InvalidFieldException> fault() {
    int sum = 0;
    for (idempotencyledger.client.proto.Header header : message.getHeadersList()) {
      int size = size(header.getName());
      if (size < 1 || size > NAME_MAX) {
        return fault("headers.name", "has " + size + " bytes; 1 to " + NAME_MAX + " are allowed");
      }
      sum += size + header.getValue().size();
    }
    int together = sum;
    if (message.getHeadersCount() > HEADERS_MAX) {
      String found = "has " + message.getHeadersCount() + " headers; at most ";
      return fault("headers", found + HEADERS_MAX + " are allowed");
    }
    return larger("payload", message.getPayload().size(), PAYLOAD_MAX)
        .or(() -> larger("message_key", message.getMessageKey().size(), KEY_MAX))
        .or(() -> larger("topic", size(message.getTopic()), NAME_MAX))
        .or(() -> larger("event_version", size(message.getEventVersion()), TEXT_MAX))
        .or(() -> larger("content_type", size(message.getContentType()), TEXT_MAX))
        .or(() -> larger("headers", together, HEADERS_BYTES_MAX));
  }

  private static Optional<InvalidFieldException> larger(String field, int size, int most) {
    return size <= most
        ? Optional.empty()
        : fault(field, "has " + size + " bytes; at most " + most + " are allowed");
  }

  private static Optional<InvalidFieldException> fault(String field, String bound) {
    return Optional.of(new InvalidFieldException("message." + field, bound));
  }

  private static int size(String text) {
    return text.getBytes(StandardCharsets.UTF_8).length;
  }
}
