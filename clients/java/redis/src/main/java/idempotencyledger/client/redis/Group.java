package idempotencyledger.client.redis;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Protocol.Command;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;

/** The commands of one consumer of a group. Fields are bytes, so that none is decoded. */
final class Group {
  private static final int HOST_MAX = 100;

  private final UnifiedJedis redis;
  private final byte[] stream;
  private final byte[] group;
  private final byte[] name;

  Group(UnifiedJedis redis, String stream, String group) {
    this.redis = redis;
    this.stream = bytes(stream);
    this.group = bytes(group);
    name = bytes(host() + "/" + ProcessHandle.current().pid());
  }

  private static String host() {
    try {
      String host = InetAddress.getLocalHost().getHostName();
      return host.substring(0, Math.min(HOST_MAX, host.length()));
    } catch (UnknownHostException e) {
      return "unknown";
    }
  }

  static byte[] bytes(Object value) {
    return String.valueOf(value).getBytes(StandardCharsets.UTF_8);
  }

  /** Sends a command about a stream, which in a cluster is found by its key. */
  private Object send(Command command, byte[] key, Object... parts) {
    CommandArguments call = new CommandArguments(command);
    for (Object part : parts) {
      if (part == key) {
        call.key(part);
      } else {
        call.add(part instanceof byte[] raw ? raw : bytes(part));
      }
    }
    return redis.executeCommand(call);
  }

  /** Makes the group where it is missing. */
  void create() {
    try {
      send(Command.XGROUP, stream, "CREATE", stream, group, 0, "MKSTREAM");
    } catch (JedisDataException e) {
      if (!String.valueOf(e.getMessage()).startsWith("BUSYGROUP")) {
        throw e;
      }
    }
  }

  /**
   * Takes entries that have been idle for so long.
   *
   * @return the next cursor, the entries, and the ids of those that are not in the stream any more
   */
  List<?> idle(Duration least, byte[] cursor, int most) {
    return Entry.list(
        send(
            Command.XAUTOCLAIM,
            stream,
            stream,
            group,
            name,
            least.toMillis(),
            cursor,
            "COUNT",
            most));
  }

  /** Takes new entries; waits for them for so long. */
  List<Entry> fresh(int most, long milliseconds) {
    Object answer =
        send(
            Command.XREADGROUP,
            stream,
            "GROUP",
            group,
            name,
            "COUNT",
            most,
            "BLOCK",
            milliseconds,
            "STREAMS",
            stream,
            ">");
    List<Entry> found = new ArrayList<>();
    for (Object each : Entry.list(answer)) {
      // An array by RESP2, and a map by RESP3.
      boolean isMap = each instanceof Map.Entry<?, ?>;
      found.addAll(Entry.of(isMap ? ((Map.Entry<?, ?>) each).getValue() : Entry.list(each).get(1)));
    }
    return found;
  }

  /** Sets how long entries have been idle; one that is not pending any more stays so. */
  void setIdle(List<String> entries, long milliseconds) {
    List<Object> parts = new ArrayList<>(List.of(stream, group, name, 0));
    parts.addAll(entries);
    parts.addAll(List.of("IDLE", milliseconds, "JUSTID"));
    send(Command.XCLAIM, stream, parts.toArray());
  }

  void acknowledge(String entry) {
    send(Command.XACK, stream, stream, group, entry);
  }

  /** Stores a copy in another stream. */
  void store(String other, List<byte[]> fields) {
    byte[] key = bytes(other);
    List<Object> parts = new ArrayList<>(List.of(key, "*"));
    parts.addAll(fields);
    send(Command.XADD, key, parts.toArray());
  }
}
