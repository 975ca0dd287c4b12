package idempotencyledger.client.kafka;

import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.PriorityQueue;
import java.util.Queue;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * What one assignment of a partition has taken and not committed. The lock of {@link Partitions}
 * guards it.
 */
final class Partition {
  /**
   * How many offsets a partition may be ahead of its oldest message that is not done: a crash
   * repeats those.
   */
  static final long AHEAD = 10_000;

  /** A message that was taken. */
  static final class Message {
    final ConsumerRecord<byte[], byte[]> record;
    final Partition partition;
    private boolean done;
    boolean postponed;
    private long dueAt;

    private Message(ConsumerRecord<byte[], byte[]> record, Partition partition) {
      this.record = record;
      this.partition = partition;
    }
  }

  final TopicPartition place;

  /** It is paused at Kafka's client. */
  boolean paused;

  /** It belongs to another member by now, or soon will. Read without the lock. */
  volatile boolean revoked;

  /** The offset that was committed last, or is being committed. */
  OffsetAndMetadata committed;

  /** From the oldest message on that is not done. */
  private final Deque<Message> taken = new ArrayDeque<>();

  private final Queue<Message> waiting = new ArrayDeque<>();
  private final Queue<Message> late =
      new PriorityQueue<>(Comparator.comparingLong((Message each) -> each.dueAt));

  /** How many messages were late at least once, and are not done. */
  private int postponed;

  private OffsetAndMetadata done;

  Partition(TopicPartition place) {
    this.place = place;
  }

  /** Whether a message with this offset was taken: the partition was truncated or made again. */
  boolean beyond(long offset) {
    return !taken.isEmpty() && taken.getLast().record.offset() >= offset
        || done != null && done.offset() > offset;
  }

  /** Takes a message that may begin now, or after so many nanoseconds. */
  void take(ConsumerRecord<byte[], byte[]> record, long now, long wait) {
    Message message = new Message(record, this);
    taken.add(message);
    if (wait > 0) {
      postpone(message, now + wait);
    } else {
      waiting.add(message);
    }
  }

  /** The next message that may begin; null where there is none. */
  Message next(long now) {
    if (!late.isEmpty() && late.peek().dueAt - now <= 0) {
      return late.remove();
    }
    return postponed > 0 ? null : waiting.poll();
  }

  /** The message begins again at this instant; no later one of the partition before it is done. */
  void postpone(Message message, long dueAt) {
    if (!message.postponed) {
      message.postponed = true;
      postponed++;
    }
    message.dueAt = dueAt;
    late.add(message);
  }

  /** The message is done. */
  void done(Message message) {
    message.done = true;
    if (message.postponed) {
      postponed--;
    }
    while (!taken.isEmpty() && taken.getFirst().done) {
      ConsumerRecord<byte[], byte[]> last = taken.remove().record;
      done = new OffsetAndMetadata(last.offset() + 1, last.leaderEpoch(), "");
    }
  }

  /** The offset that may be committed: all before it are done. Null where that is none. */
  OffsetAndMetadata done() {
    return done;
  }

  /** Whether nothing more may be taken. */
  boolean blocked() {
    return postponed > 0
        || !taken.isEmpty()
            && taken.getLast().record.offset() - taken.getFirst().record.offset() >= AHEAD;
  }

  /** How many messages begin as soon as others end. */
  int ready() {
    return postponed > 0 ? 0 : waiting.size();
  }

  /** Whether everything that was taken is done. */
  boolean idle() {
    return taken.isEmpty();
  }

  /** Nanoseconds until a message is due again; {@code most} where that is longer, or none is. */
  long nextDue(long now, long most) {
    return late.isEmpty() ? most : Math.max(0, Math.min(most, late.peek().dueAt - now));
  }
}
