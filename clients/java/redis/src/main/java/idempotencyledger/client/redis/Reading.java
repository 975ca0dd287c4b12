package idempotencyledger.client.redis;

import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.internal.Deliveries;
import idempotencyledger.client.brokers.internal.Log;
import idempotencyledger.client.brokers.internal.Verdict;
import idempotencyledger.client.brokers.internal.Workers;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;

/** One run of a {@link StreamConsumer}. */
final class Reading {
  private static final long BLOCK = 1000; // ms: a request to stop is noticed after it
  private static final long READ_AGAIN = 1000; // ms

  /** Answers of Redis that pass, by their first words. */
  private static final Set<String> PASSING =
      Set.of(
          "LOADING",
          "READONLY",
          "CLUSTERDOWN",
          "TRYAGAIN",
          "MASTERDOWN",
          "MOVED",
          "ASK",
          "BUSY",
          "UNBLOCKED",
          "OOM",
          "MISCONF");

  record Settings(
      Ledger ledger,
      String stream,
      String group,
      EntryHandler handler,
      StreamConsumer.Naming named,
      String body,
      String deadLetters,
      Duration visibility,
      int concurrency,
      Duration grace) {}

  private final Settings settings;
  private final Group group;
  private final Idle idle;
  private final Log log;
  private final Deliveries deliveries;
  private final Workers workers;
  private byte[] cursor = Group.bytes("0-0");

  Reading(Settings settings, UnifiedJedis redis) {
    this.settings = settings;
    group = new Group(redis, settings.stream(), settings.group());
    idle = new Idle(group, settings.visibility());
    log = new Log("stream " + settings.stream());
    deliveries = new Deliveries(settings.ledger(), log);
    workers = new Workers("idempotency-ledger-redis", settings.concurrency(), deliveries);
  }

  /** See {@link StreamConsumer#run}. */
  void run(BooleanSupplier stop) {
    group.create();
    ScheduledExecutorService keeping =
        Executors.newSingleThreadScheduledExecutor(
            work -> Workers.thread("idempotency-ledger-redis-idle", work));
    long third = settings.visibility().toMillis() / 3;
    keeping.scheduleWithFixedDelay(this::keep, third, third, TimeUnit.MILLISECONDS);
    try {
      workers.run(stop, this::take, settings.grace());
    } finally {
      keeping.shutdownNow();
    }
    deliveries.end(workers.running(), settings.grace(), RuntimeException.class);
  }

  private void take(int free) {
    try {
      for (Entry entry : idle.begin(read(free))) {
        workers.begin(() -> work(entry));
      }
    } catch (JedisException e) {
      if (e.getCause() instanceof InterruptedException) { // It waited for a connection.
        workers.interrupt();
      } else if (lasts(e)) {
        deliveries.fail(e);
      } else {
        log.warn("no entry can be read for now", text(e));
        workers.await(READ_AGAIN);
      }
    }
  }

  /** Entries whose consumer is gone or that are due again, else new ones. */
  private List<Entry> read(int most) {
    List<?> found = group.idle(settings.visibility(), cursor, most);
    cursor = (byte[]) found.get(0);
    int lost = found.size() > 2 ? Entry.list(found.get(2)).size() : 0;
    if (lost > 0) {
      log.error(
          "entries are lost: they were pending, and were trimmed or deleted", lost + " entries");
    }
    List<Entry> again = Entry.of(found.get(1));
    return again.isEmpty() ? group.fresh(most, BLOCK) : again;
  }

  /** Whether Redis will refuse the same command again. */
  static boolean lasts(JedisException error) {
    return error instanceof JedisDataException && !PASSING.contains(text(error));
  }

  private void work(Entry entry) {
    try {
      settle(entry);
    } catch (JedisException e) {
      // The entry stays pending, and the ledger knows what became of it.
      log.warn("an entry was not acknowledged", text(e));
    } finally {
      idle.end(entry);
    }
  }

  private void settle(Entry entry) {
    byte[] field = entry.field(settings.body());
    byte[] body = field == null ? new byte[0] : field;
    Supplier<Named> name = () -> settings.named().name(settings.stream(), entry, body);
    Verdict verdict =
        settings.handler() == EntryHandler.STORE
            ? deliveries.store(
                name,
                entry.inboxMessage(settings.body(), body).withTopic(settings.stream()),
                workers::stopping)
            : deliveries.process(
                name, body, workers::stopping, claim -> settings.handler().handle(claim, entry));
    switch (verdict.kind()) {
      case NOT_BEGUN -> idle.postpone(entry, Duration.ZERO);
      case RETRY_LATER -> idle.postpone(entry, verdict.delay());
      case ACK -> group.acknowledge(entry.id());
      case DEAD_LETTER -> {
        // Not one transaction: Redis would acknowledge the entry also where the copy is refused.
        group.store(
            settings.deadLetters(), entry.with(StreamConsumer.REASON_FIELD, verdict.reason()));
        group.acknowledge(entry.id());
      }
    }
  }

  private void keep() {
    try {
      idle.keep();
    } catch (JedisException e) {
      log.warn("entries were not kept; another consumer may take them", text(e));
    }
  }

  /**
   * The first word of Redis' answer, such as WRONGTYPE, or the type of another error: the rest of
   * an answer may quote an entry.
   */
  static String text(JedisException error) {
    return error instanceof JedisDataException
        ? String.valueOf(error.getMessage()).split(" ", 2)[0]
        : error.getClass().getSimpleName();
  }
}
