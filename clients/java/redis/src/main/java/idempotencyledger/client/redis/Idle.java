package idempotencyledger.client.redis;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * How long entries of this consumer have been idle, as Redis has it: any consumer of the group
 * takes one that has been idle for the visibility.
 *
 * <p>The lock of this object is held while idle times are set, so that an earlier one never follows
 * a later one.
 */
final class Idle {
  /** The number of entries whose idle times are set by one command. */
  private static final int BATCH = 500;

  private final Group group;
  private final long visibility; // ms

  /** Entries that are processed here, by their ids. */
  private final Map<String, Entry> running = new HashMap<>();

  /**
   * Entries whose delay is longer than the visibility, with the instants of the monotonic clock at
   * which they are due, in nanoseconds.
   */
  private final Map<String, Long> postponed = new HashMap<>();

  Idle(Group group, Duration visibility) {
    this.group = group;
    this.visibility = visibility.toMillis();
  }

  /** The entries that are not processed here already: a process that stood still takes its own. */
  synchronized List<Entry> begin(List<Entry> entries) {
    List<Entry> fresh = new ArrayList<>();
    for (Entry entry : entries) {
      if (running.putIfAbsent(entry.id(), entry) == null) {
        postponed.remove(entry.id());
        fresh.add(entry);
      }
    }
    return fresh;
  }

  /** The entry is not processed here any more, unless it was taken again since. */
  synchronized void end(Entry entry) {
    running.remove(entry.id(), entry);
  }

  /** Lets any consumer take the entry after the delay. */
  synchronized void postpone(Entry entry, Duration delay) {
    running.remove(entry.id());
    long milliseconds = delay.plusNanos(999_999).toMillis();
    if (milliseconds > visibility) {
      postponed.put(entry.id(), System.nanoTime() + delay.toNanos());
    }
    group.setIdle(List.of(entry.id()), Math.max(visibility - milliseconds, 0));
  }

  /** Sets the idle times back of the entries that are processed here, and of those that wait. */
  synchronized void keep() {
    List<String> kept = new ArrayList<>(running.keySet());
    Map<String, Long> due = new HashMap<>();
    long now = System.nanoTime();
    postponed.forEach(
        (entry, at) -> {
          long left = Math.max(0, (at - now) / 1_000_000);
          if (left > visibility) {
            kept.add(entry);
          } else {
            due.put(entry, left);
          }
        });
    for (int at = 0; at < kept.size(); at += BATCH) {
      group.setIdle(kept.subList(at, Math.min(at + BATCH, kept.size())), 0);
    }
    due.forEach(
        (entry, left) -> {
          group.setIdle(List.of(entry), visibility - left);
          postponed.remove(entry);
        });
  }
}
