package idempotencyledger.client.kafka;

import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.internal.Deliveries;
import idempotencyledger.client.brokers.internal.Log;
import idempotencyledger.client.brokers.internal.Verdict;
import idempotencyledger.client.brokers.internal.Verdict.Kind;
import idempotencyledger.client.kafka.Partition.Message;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthenticationException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupMaxSizeReachedException;
import org.apache.kafka.common.errors.InconsistentGroupProtocolException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidSessionTimeoutException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.UnsupportedVersionException;

/**
 * One run of a {@link TopicConsumer}: a member of its group.
 *
 * <p>The thread that runs it polls, pauses and commits, since Kafka's consumer serves one thread
 * alone; threads of the executor process messages.
 */
final class Member implements ConsumerRebalanceListener {
  private static final long POLL_IDLE = 500; // ms: a request to stop is noticed after it
  private static final long POLL_BUSY = 100; // ms, while messages run or wait
  private static final long COMMIT_EVERY = TimeUnit.SECONDS.toNanos(1);
  private static final long COPY_AGAIN = TimeUnit.SECONDS.toNanos(1);

  /**
   * How long a message waits at most whose attempt runs at another member. The ledger names the end
   * of the lease, but after a rebalance the former owner of the partition mostly ends or releases
   * the attempt within a second.
   */
  private static final long ASK_EVERY = TimeUnit.SECONDS.toNanos(1);

  /** The ledger's verdict. */
  private static final String IN_PROGRESS = "in_progress";

  private static final Duration COMMIT_MOST = Duration.ofSeconds(5);
  private static final Duration LEAVE_MOST = Duration.ofSeconds(2);

  /** How long polls may fail by an error that Kafka does not call retriable. */
  private static final long FAILING_MOST = TimeUnit.SECONDS.toNanos(60);

  /** Errors of a poll that no time mends. */
  private static final List<Class<? extends KafkaException>> LASTING =
      List.of(
          AuthorizationException.class,
          AuthenticationException.class,
          FencedInstanceIdException.class,
          GroupMaxSizeReachedException.class,
          InconsistentGroupProtocolException.class,
          InvalidOffsetException.class,
          InvalidSessionTimeoutException.class,
          InvalidTopicException.class,
          UnsupportedVersionException.class);

  record Settings(
      Ledger ledger,
      String topic,
      MessageHandler handler,
      BiFunction<String, ConsumerRecord<byte[], byte[]>, Named> named,
      String retries,
      String deadLetters,
      int concurrency,
      Duration grace) {}

  private final Settings settings;
  private final Consumer<byte[], byte[]> consumer;
  private final Copies copies;
  private final Log log;
  private final Deliveries deliveries;
  private final Partitions partitions;
  private final ExecutorService threads;
  private volatile boolean stopping;
  private boolean interrupted;
  private boolean broken;
  private long committedAt = System.nanoTime();

  /** When polls began to fail; 0 where the last one has succeeded. */
  private long failingSince;

  Member(Settings settings, Consumer<byte[], byte[]> consumer, Copies copies) {
    this.settings = settings;
    this.consumer = consumer;
    this.copies = copies;
    log = new Log("topic " + settings.topic());
    deliveries = new Deliveries(settings.ledger(), log);
    partitions = new Partitions(settings.concurrency());
    threads =
        Executors.newFixedThreadPool(
            settings.concurrency(),
            work -> {
              Thread thread = new Thread(work, "idempotency-ledger-kafka");
              thread.setDaemon(true);
              return thread;
            });
  }

  /** See {@link TopicConsumer#run}. */
  void run(BooleanSupplier stop) {
    try {
      consumer.subscribe(
          settings.retries() == null
              ? List.of(settings.topic())
              : List.of(settings.topic(), settings.retries()),
          this);
      long end = 0;
      while (!stopping || partitions.running() > 0 && System.nanoTime() - end < 0) {
        turn();
        if (!stopping && (interrupted || deliveries.failure() != null || stop.getAsBoolean())) {
          stopping = true;
          partitions.stop();
          end = System.nanoTime() + settings.grace().toNanos();
        }
      }
    } catch (RuntimeException e) { // Of `stop`, or of the settings.
      deliveries.fail(e);
    } finally {
      stopping = true;
      partitions.stop();
      threads.shutdown();
      leave();
      if (interrupted) {
        Thread.currentThread().interrupt();
      }
    }
    deliveries.end(partitions.running(), settings.grace(), RuntimeException.class);
  }

  /** Begins what may begin, takes more, and commits what is done. */
  private void turn() {
    try {
      dispatch();
      if (broken) {
        partitions.await(POLL_BUSY);
        return;
      }
      boolean room = partitions.awaitRoom(POLL_BUSY);
      steer();
      commit();
      Duration patience =
          room ? Duration.ofMillis(partitions.patience(POLL_IDLE, POLL_BUSY)) : Duration.ZERO;
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(patience)) {
        partitions.take(record, record.topic().equals(settings.retries()) ? Texts.wait(record) : 0);
      }
    } catch (InterruptException | InterruptedException e) {
      interrupt();
    } catch (RetriableException e) {
      log.warn("messages cannot be read for now", Copies.text(e));
      pause();
    } catch (RuntimeException e) {
      if (lasts(e)) {
        broken = true;
        deliveries.fail(e);
      } else {
        log.error("messages cannot be read", Copies.text(e));
        pause();
      }
    }
  }

  /**
   * Whether an error of a poll ends the run. While a broker starts, Kafka's client throws also what
   * it does not call retriable, so that such an error lasts only when no poll succeeds for a while.
   */
  private boolean lasts(RuntimeException error) {
    long now = System.nanoTime();
    failingSince = failingSince == 0 ? now : failingSince;
    return !(error instanceof KafkaException)
        || LASTING.stream().anyMatch(each -> each.isInstance(error))
        || now - failingSince > FAILING_MOST;
  }

  private void pause() {
    try {
      partitions.await(POLL_BUSY);
    } catch (InterruptedException e) {
      interrupt();
    }
  }

  /** The run ends in good order, and its thread is interrupted after that. */
  private void interrupt() {
    Thread.interrupted();
    interrupted = true;
  }

  private void dispatch() {
    for (Message next = partitions.begin(); next != null; next = partitions.begin()) {
      Message begun = next;
      threads.execute(() -> work(begun));
    }
  }

  private void steer() {
    Partitions.Steer steer = partitions.steer();
    consumer.pause(steer.pause());
    consumer.resume(steer.resume());
  }

  private void commit() {
    if (System.nanoTime() - committedAt < COMMIT_EVERY) {
      return;
    }
    committedAt = System.nanoTime();
    Map<TopicPartition, OffsetAndMetadata> offsets = partitions.offsets();
    if (!offsets.isEmpty()) {
      partitions.committing(offsets);
      consumer.commitAsync(offsets, this::committed);
    }
  }

  private void committed(Map<TopicPartition, OffsetAndMetadata> offsets, Exception error) {
    if (error == null) {
      return;
    }
    partitions.uncommitted(offsets);
    if (error instanceof AuthorizationException || error instanceof FencedInstanceIdException) {
      deliveries.fail(error);
    } else if (!(error instanceof RebalanceInProgressException)) {
      notCommitted(error);
    }
  }

  private void notCommitted(Exception error) {
    log.warn("offsets are not committed; their messages may come again", Copies.text(error));
  }

  /** Commits before partitions have another owner, who begins there. */
  private void commitNow(Map<TopicPartition, OffsetAndMetadata> offsets) {
    if (offsets.isEmpty()) {
      return;
    }
    try {
      consumer.commitSync(offsets, COMMIT_MOST);
    } catch (InterruptException e) {
      interrupt();
    } catch (KafkaException e) {
      notCommitted(e);
    }
  }

  /** Commits what is done, and leaves the group. */
  private void leave() {
    try {
      if (!broken) {
        commitNow(partitions.revokeAll());
      }
      consumer.close(CloseOptions.timeout(LEAVE_MOST));
    } catch (InterruptException e) {
      interrupt();
    } catch (KafkaException e) {
      log.warn("the group was not left in good order", Copies.text(e));
    } finally {
      partitions.revokeAll();
    }
  }

  @Override
  public void onPartitionsAssigned(Collection<TopicPartition> places) {
    partitions.assign(places);
  }

  @Override
  public void onPartitionsRevoked(Collection<TopicPartition> places) {
    commitNow(partitions.revoke(places));
  }

  @Override
  public void onPartitionsLost(Collection<TopicPartition> places) {
    partitions.revoke(places); // They have another owner: a commit could undo that one's.
  }

  private void work(Message message) {
    try {
      settle(message);
    } catch (RuntimeException | Error e) {
      deliveries.fail(e);
      partitions.leave(message);
    }
    dispatch();
  }

  private Verdict verdict(Message message) {
    Supplier<Named> name = () -> settings.named().apply(settings.topic(), message.record);
    BooleanSupplier gone = () -> stopping || message.partition.revoked;
    if (settings.handler() == MessageHandler.STORE) {
      return deliveries.store(name, Texts.inboxMessage(message.record), gone);
    }
    return deliveries.process(
        name,
        Texts.body(message.record),
        gone,
        claim -> settings.handler().handle(claim, message.record));
  }

  private void settle(Message message) {
    Verdict verdict = verdict(message);
    if (verdict.kind() == Kind.NOT_BEGUN || message.partition.revoked) {
      partitions.leave(message); // Another member has it again: the ledger knows what became of it.
      return;
    }
    String failed = "";
    if (verdict.kind() == Kind.RETRY_LATER) {
      long delay = verdict.delay().toNanos();
      // With a retry topic it is asked for once: the member may be gone, and its lease may be long.
      boolean asked =
          verdict.reason().equals(IN_PROGRESS)
              && (settings.retries() == null || !partitions.wasPostponed(message));
      if (settings.retries() == null || asked) {
        partitions.postpone(message, asked ? Math.min(delay, ASK_EVERY) : delay);
        return;
      }
      long due = System.currentTimeMillis() + verdict.delay().toMillis();
      failed =
          copies.store(
              message.record, settings.retries(), TopicConsumer.DUE_HEADER, Long.toString(due));
    } else if (verdict.kind() == Kind.DEAD_LETTER) {
      failed =
          copies.store(
              message.record,
              settings.deadLetters(),
              TopicConsumer.REASON_HEADER,
              verdict.reason());
    }
    if (failed.isEmpty()) {
      partitions.done(message);
    } else {
      log.error("a copy of a message is not stored; the message is kept", failed);
      partitions.postpone(message, COPY_AGAIN);
    }
  }
}
