package idempotencyledger.client.kafka;

import idempotencyledger.client.kafka.Partition.Message;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** The partitions of one member of the group, and its messages that run. Safe for threads. */
final class Partitions {
  private final int concurrency;

  /**
   * Messages that are taken while all of {@code concurrency} run: half of them begin before more.
   */
  private final int most;

  /** The partition whose turn is next is the first one. */
  private final Map<TopicPartition, Partition> assigned = new LinkedHashMap<>();

  private int running;
  private boolean crowded;
  private boolean stopped;

  Partitions(int concurrency) {
    this.concurrency = concurrency;
    this.most = Math.max(100, concurrency);
  }

  synchronized void assign(Collection<TopicPartition> places) {
    revoke(places); // Each has a new beginning.
    places.forEach(place -> assigned.put(place, new Partition(place)));
  }

  /** Gives partitions up; returns what of them is done and not committed. */
  synchronized Map<TopicPartition, OffsetAndMetadata> revoke(Collection<TopicPartition> places) {
    Map<TopicPartition, OffsetAndMetadata> done = offsets();
    done.keySet().retainAll(places);
    for (TopicPartition place : places) {
      Partition partition = assigned.remove(place);
      if (partition != null) {
        partition.revoked = true;
      }
    }
    return done;
  }

  /** Gives all partitions up; returns what of them is done and not committed. */
  synchronized Map<TopicPartition, OffsetAndMetadata> revokeAll() {
    return revoke(List.copyOf(assigned.keySet()));
  }

  /** Nothing begins any more. */
  synchronized void stop() {
    stopped = true;
  }

  /**
   * Takes a message.
   *
   * @param wait milliseconds until it may begin
   */
  synchronized void take(ConsumerRecord<byte[], byte[]> record, long wait) {
    TopicPartition place = new TopicPartition(record.topic(), record.partition());
    Partition partition = assigned.get(place);
    if (partition == null || stopped) {
      return;
    }
    if (partition.beyond(record.offset())) {
      // The log is another one by now: nothing of the former one is committed.
      Partition former = partition;
      former.revoked = true;
      partition = new Partition(place);
      partition.paused = former.paused;
      assigned.put(place, partition);
    }
    partition.take(record, System.nanoTime(), TimeUnit.MILLISECONDS.toNanos(wait));
  }

  /** The next message that may run, of the partitions in turn; null where there is none. */
  synchronized Message begin() {
    if (stopped || running >= concurrency) {
      return null;
    }
    long now = System.nanoTime();
    for (Partition partition : assigned.values()) {
      Message message = partition.next(now);
      if (message != null) {
        running++;
        assigned.remove(partition.place);
        assigned.put(partition.place, partition); // The last one in the next turn.
        return message;
      }
    }
    return null;
  }

  /** A message that has begun is done. */
  synchronized void done(Message message) {
    if (!message.partition.revoked) {
      message.partition.done(message);
    }
    ended();
  }

  /** A message that has begun must begin again after so many nanoseconds. */
  synchronized void postpone(Message message, long wait) {
    if (!message.partition.revoked) {
      message.partition.postpone(message, System.nanoTime() + wait);
    }
    ended();
  }

  /** Whether a message was postponed before. */
  synchronized boolean wasPostponed(Message message) {
    return message.postponed;
  }

  /** A message that has begun stays uncommitted: another member has it again. */
  synchronized void leave(Message message) {
    ended();
  }

  private void ended() {
    running--;
    notifyAll();
  }

  synchronized int running() {
    return running;
  }

  /** Waits until another message has ended, at most so many milliseconds. */
  synchronized void await(long most) throws InterruptedException {
    wait(most);
  }

  /** Waits until more may be taken, at most so many milliseconds; returns whether it may. */
  synchronized boolean awaitRoom(long most) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(most);
    long left = most;
    while (full() && left > 0) {
      wait(left);
      left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
    }
    return !full();
  }

  private boolean full() {
    int ready = assigned.values().stream().mapToInt(Partition::ready).sum();
    crowded = stopped || ready >= most || crowded && ready > most / 2;
    return crowded;
  }

  /** The partitions of which nothing may be taken any more, or again. */
  record Steer(List<TopicPartition> pause, List<TopicPartition> resume) {}

  synchronized Steer steer() {
    boolean full = full();
    Steer steer = new Steer(new ArrayList<>(), new ArrayList<>());
    for (Partition partition : assigned.values()) {
      boolean wanted = full || partition.blocked();
      if (wanted != partition.paused) {
        partition.paused = wanted;
        (wanted ? steer.pause() : steer.resume()).add(partition.place);
      }
    }
    return steer;
  }

  /** The offsets of done, uncommitted messages, never past one that is not done. */
  synchronized Map<TopicPartition, OffsetAndMetadata> offsets() {
    Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
    for (Partition partition : assigned.values()) {
      if (partition.done() != null && !partition.done().equals(partition.committed)) {
        found.put(partition.place, partition.done());
      }
    }
    return found;
  }

  /** These offsets are being committed. */
  synchronized void committing(Map<TopicPartition, OffsetAndMetadata> offsets) {
    offsets.forEach(
        (place, offset) -> {
          if (assigned.containsKey(place)) {
            assigned.get(place).committed = offset;
          }
        });
  }

  /** These offsets were not committed: they are again, with the next ones. */
  synchronized void uncommitted(Map<TopicPartition, OffsetAndMetadata> offsets) {
    offsets.forEach(
        (place, offset) -> {
          Partition partition = assigned.get(place);
          if (partition != null && offset.equals(partition.committed)) {
            partition.committed = null;
          }
        });
  }

  /** Milliseconds that a poll may wait for a message. */
  synchronized long patience(long idle, long busy) {
    long now = System.nanoTime();
    boolean nothing = running == 0 && assigned.values().stream().allMatch(Partition::idle);
    long most = TimeUnit.MILLISECONDS.toNanos(nothing ? idle : busy);
    if (running < concurrency) { // Else what is due begins when another message has ended.
      for (Partition partition : assigned.values()) {
        most = partition.nextDue(now, most);
      }
    }
    return Math.max(1, TimeUnit.NANOSECONDS.toMillis(most));
  }
}
