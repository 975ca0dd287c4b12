package idempotencyledger.client;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** The messages of a worker that wait, and those that run. Its worker guards it. */
final class WorkQueue {
  /** Of a ClaimNext: a request to stop is obeyed after it. */
  private static final long LONGEST_WAIT = TimeUnit.SECONDS.toNanos(5);

  /** Messages that each handler has at hand at most: other workers may be free for the rest. */
  private static final int AHEAD = 10;

  /** Messages that one ClaimNext may hand out. */
  private static final int ONE_CALL = 1000;

  /**
   * A message whose lease ran out twice in a row is handed out alone: it may kill the process that
   * runs it.
   */
  private static final int SUSPECT_ATTEMPT = 3;

  private static final long SHORTEST = TimeUnit.MILLISECONDS.toNanos(1);

  private final int concurrency;
  private final Deque<Item> waiting = new ArrayDeque<>();
  private final Map<Key, Item> running = new HashMap<>();
  private long lease;
  private long took;
  private int suspects;

  /** A message that this process was handed out, with its claim, which is renewed. */
  static final class Item {
    final Claim claim;
    final Renewal renewal;
    final StoredMessage message;
    private boolean alone;

    Item(Claim claim, Renewal renewal, StoredMessage message) {
      this.claim = claim;
      this.renewal = renewal;
      this.message = message;
    }
  }

  WorkQueue(int concurrency, long lease) {
    this.concurrency = concurrency;
    this.lease = lease;
  }

  /** How many messages to ask for now; 0 while enough wait, and while a suspect waits or runs. */
  int room() {
    passLost();
    if (waiting.size() >= concurrency || suspects > 0) {
      return 0;
    }
    // All leases of a handout begin with it: it is at most what half of a lease suffices for.
    long half = took == 0 ? 1 : lease / (2 * Math.max(took, SHORTEST));
    int ahead = (int) Math.max(1, Math.min(AHEAD, half));
    int most = concurrency * ahead - waiting.size() - running.size();
    return Math.max(0, Math.min(ONE_CALL, most));
  }

  /** How long a ClaimNext may wait: a quarter of the lease, which counts from before the call. */
  long longestWait() {
    return Math.min(LONGEST_WAIT, lease / 4);
  }

  void add(List<Item> items) {
    for (Item item : items) {
      var granted = item.claim.hold().granted();
      lease = Protos.nanos(granted.getLease());
      boolean again = granted.getEffectUnknown() && granted.getAttempt() >= SUSPECT_ATTEMPT;
      item.alone = items.size() == 1 && again;
      suspects += item.alone ? 1 : 0;
      waiting.add(item);
    }
  }

  /** The next message to run, which counts as running from now on; null while none may begin. */
  Item next() {
    passLost();
    if (running.size() >= concurrency || running.values().stream().anyMatch(item -> item.alone)) {
      return null;
    }
    for (Iterator<Item> each = waiting.iterator(); each.hasNext(); ) {
      Item item = each.next();
      if (item.alone && !running.isEmpty()) {
        return null;
      }
      // A handler of an earlier attempt, whose lease was lost, may still run here.
      if (!running.containsKey(item.message.key())) {
        each.remove();
        running.put(item.message.key(), item);
        return item;
      }
    }
    return null;
  }

  /** A suspect that lost its claim while it waited blocks no other: its handler never begins. */
  private void passLost() {
    for (Item item : waiting) {
      if (item.alone && item.claim.hold().lost() != null) {
        item.alone = false;
        suspects--;
      }
    }
  }

  /** Its handler has ended after this time. */
  void ended(Item item, long nanos) {
    running.remove(item.message.key());
    suspects -= item.alone ? 1 : 0;
    took = Math.max(Math.max(nanos, 1), took - (took - nanos) / 10);
  }

  boolean idle() {
    return running.isEmpty();
  }

  /** The messages that have not begun; none of them begins any more. */
  List<Item> drain() {
    List<Item> left = new ArrayList<>(waiting);
    waiting.clear();
    return left;
  }
}
