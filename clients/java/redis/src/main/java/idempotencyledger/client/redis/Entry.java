package idempotencyledger.client.redis;

import idempotencyledger.client.InboxMessage;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** An entry of a stream, whose fields are bytes. */
public final class Entry {
  private final String id;
  private final List<byte[]> parts;

  /**
   * An entry.
   *
   * @param id what Redis has named it
   * @param parts names and values of its fields, one after the other
   */
  Entry(String id, List<byte[]> parts) {
    this.id = id;
    this.parts = parts;
  }

  /** The entries of an answer; those that were deleted since are left out. */
  static List<Entry> of(Object answer) {
    List<Entry> found = new ArrayList<>();
    for (Object each : list(answer)) {
      List<?> entry = list(each);
      if (entry.size() == 2 && entry.get(1) != null) {
        List<byte[]> parts = new ArrayList<>();
        list(entry.get(1)).forEach(part -> parts.add((byte[]) part));
        found.add(new Entry(text(entry.get(0)), parts));
      }
    }
    return found;
  }

  static List<?> list(Object answer) {
    return answer instanceof List<?> known ? known : List.of();
  }

  static String text(Object answer) {
    return new String((byte[]) answer, StandardCharsets.UTF_8);
  }

  /**
   * What Redis has named the entry, such as {@code 1700000000000-0}. It is not the id of the
   * message: a producer that repeats a send gets another one.
   *
   * @return the id in the stream
   */
  public String id() {
    return id;
  }

  /**
   * A field.
   *
   * @param name its name; the last field of that name counts
   * @return its value; null where there is none
   */
  public byte[] field(String name) {
    byte[] wanted = name.getBytes(StandardCharsets.UTF_8);
    byte[] found = null;
    for (int at = 0; at + 1 < parts.size(); at += 2) {
      found = Arrays.equals(parts.get(at), wanted) ? parts.get(at + 1) : found;
    }
    return found == null ? null : found.clone();
  }

  /** The fields whose names and values are UTF-8. */
  Map<String, String> texts() {
    Map<String, String> found = new HashMap<>();
    for (int at = 0; at + 1 < parts.size(); at += 2) {
      try {
        String name = decoded(parts.get(at));
        found.remove(name);
        found.put(name, decoded(parts.get(at + 1)));
      } catch (CharacterCodingException e) {
        continue; // It is not read: two ids must not become one.
      }
    }
    return found;
  }

  /** The message for the inbox: the field with the body, and the other fields as headers. */
  InboxMessage inboxMessage(String name, byte[] body) {
    InboxMessage found = InboxMessage.of(body);
    for (int at = 0; at + 1 < parts.size(); at += 2) {
      String other = new String(parts.get(at), StandardCharsets.UTF_8);
      found = other.equals(name) ? found : found.withHeader(other, parts.get(at + 1));
    }
    return found;
  }

  private static String decoded(byte[] bytes) throws CharacterCodingException {
    return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
  }

  /** Names and values of the fields, with one more field; one of that name is replaced. */
  List<byte[]> with(String name, String value) {
    byte[] wanted = name.getBytes(StandardCharsets.UTF_8);
    List<byte[]> all = new ArrayList<>();
    for (int at = 0; at + 1 < parts.size(); at += 2) {
      if (!Arrays.equals(parts.get(at), wanted)) {
        all.add(parts.get(at));
        all.add(parts.get(at + 1));
      }
    }
    all.add(wanted);
    all.add(value.getBytes(StandardCharsets.UTF_8));
    return all;
  }
}
