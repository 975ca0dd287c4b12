package idempotencyledger.client;

import idempotencyledger.client.Claim.Settings;
import idempotencyledger.client.Course.Begun;
import idempotencyledger.client.Ending.Done;
import idempotencyledger.client.Inbox.Handout;
import idempotencyledger.client.proto.ClaimNextRequest;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.EntryKey;
import idempotencyledger.client.proto.StoreRequest;
import java.time.Duration;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Executor;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.function.Function;

/**
 * A client of the ledger for one consumer. It may be shared by threads, each with another message;
 * close it at the end.
 *
 * <p>It has no thread besides those of gRPC, except one that renews all leases of the process while
 * one is held.
 */
public final class Ledger implements AutoCloseable {
  private static final Duration GRACE = Duration.ofSeconds(20);

  private final String consumer;
  private final Duration lease;
  private final String owner;
  private final Unexpected unexpected;
  private final boolean repeatAnnounced;
  private final boolean interruptLost;
  private final World world;
  private final Telemetry telemetry = Telemetry.found();
  private final Transport transport;
  private final Report report;
  private final Inflight inflight = new Inflight();

  Ledger(LedgerBuilder options) {
    this(
        options,
        World.real(),
        telemetry ->
            new GrpcTransport(
                Endpoint.resolved(
                    options.endpoint,
                    options.tokenFile,
                    options.caFile,
                    options.certificate,
                    options.privateKey,
                    System::getenv),
                telemetry));
  }

  Ledger(LedgerBuilder options, World world, Function<Telemetry, Transport> transport) {
    consumer = options.consumer;
    lease = options.lease;
    owner = options.owner == null ? Owner.of(ProcessHandle.current().pid()) : options.owner;
    unexpected = options.unexpected;
    repeatAnnounced = options.repeatAnnounced;
    interruptLost = options.interruptLost;
    report = new Report(consumer);
    this.world = world;
    this.transport = transport.apply(telemetry);
  }

  /**
   * The options of a client.
   *
   * @param consumer the group that processes, 1 to 128 bytes of UTF-8 without control characters;
   *     not a process
   * @return the options, all of which have defaults
   * @throws InvalidFieldException where the consumer is beyond its bound
   */
  public static LedgerBuilder builder(String consumer) {
    return new LedgerBuilder(consumer);
  }

  /**
   * Processes one delivery without comparing its body: see {@link #process(Delivery, Handler)}.
   *
   * @param key the message's name
   * @param handler what has the effect
   * @return what became of it, and what to do with the broker's message
   */
  public Outcome process(Key key, Handler handler) {
    return process(Delivery.of(key), handler);
  }

  /**
   * Processes one delivery: see {@link #process(Delivery, Handler)}.
   *
   * @param key the message's name
   * @param body the broker's raw body, before any decoding, of which the fingerprint is made
   * @param handler what has the effect
   * @return what became of it, and what to do with the broker's message
   */
  public Outcome process(Key key, byte[] body, Handler handler) {
    return process(Delivery.of(key).withBody(body), handler);
  }

  /**
   * Processes one delivery: claims the message, runs the handler in this thread where the claim is
   * granted, settles, and advises.
   *
   * <p>Never throws what the ledger answers, nor an exception of the handler, which is in {@link
   * Outcome#error()}. An {@link Error} of the handler is thrown after its claim is settled. A
   * thread that is interrupted begins nothing, and its outcome is RETRY_LATER; one that is
   * interrupted amid the handler settles nothing unless the handler returns, and finds itself
   * interrupted afterwards. Where the claim is lost, the thread is interrupted while the handler
   * runs, and only then.
   *
   * @param delivery the message
   * @param handler what has the effect
   * @return what became of it, and what to do with the broker's message
   * @throws ClosedException where the client is closed; nothing was sent
   */
  public Outcome process(Delivery delivery, Handler handler) {
    return process(delivery, handler, () -> false);
  }

  /**
   * The same in another thread. Cancelling the future does not cancel a handler that runs, nor its
   * settlement; a claim that arrives after it is given back.
   *
   * @param delivery the message
   * @param handler what has the effect
   * @param executor runs the delivery, which waits there for the ledger's answers
   * @return what became of it; it fails with {@link ClosedException} or an {@link Error} of the
   *     handler
   */
  public CompletableFuture<Outcome> processAsync(
      Delivery delivery, Handler handler, Executor executor) {
    CompletableFuture<Outcome> answer = new CompletableFuture<>();
    executor.execute(
        () -> {
          try {
            answer.complete(process(delivery, handler, answer::isCancelled));
          } catch (Throwable error) { // It is the caller's.
            answer.completeExceptionally(error);
          }
        });
    return answer;
  }

  /**
   * Makes a call idempotent: a repeated one returns the first one's value, as the codec reads it
   * back.
   *
   * @param <T> the type of the value
   * @param delivery the call's key, and what else is known of it
   * @param codec how the value is stored; where it cannot be, the call is completed without a
   *     result
   * @param call what has the effect
   * @return the value of this or of the earlier call
   * @throws InvalidFieldException where {@code call} has returned a {@link Future} or a {@link
   *     CompletionStage}, whose work may still run: the message is parked
   * @throws NoResultException where there is nothing to return; its outcome says why
   * @throws Exception what {@code call} throws, after its claim is settled
   */
  public <T> T call(Delivery delivery, Codec<T> codec, Call<T> call) throws Exception {
    Outcome outcome =
        process(
            delivery,
            claim -> {
              T value = call.call(claim);
              refuseUnended(claim, value);
              try {
                return codec.encode(value);
              } catch (RuntimeException error) {
                report.warn("codec", "a value cannot be stored: " + error.getClass().getName());
                claim.finish(Done.withoutResult());
                return null;
              }
            });
    if (outcome.error().isPresent()) {
      throw outcome.error().get() instanceof Exception e ? e : new NoResultException(outcome);
    }
    if (outcome.resultDropped() && outcome.replayed()) {
      throw new NoResultException(outcome);
    }
    return codec.decode(outcome.result().orElseThrow(() -> new NoResultException(outcome)));
  }

  /**
   * Parks a message whose call has returned before its work has ended: whether the effect happens
   * is not known, whatever {@link LedgerBuilder#unexpected} says of other errors.
   */
  private static void refuseUnended(Claim claim, Object value) {
    if (value instanceof Future<?> || value instanceof CompletionStage<?>) {
      String bound =
          "returned a "
              + Course.typeName(value)
              + ", whose work may still run: wait for it, and return its value";
      InvalidFieldException error = new InvalidFieldException("call", bound);
      claim.settle(new Park(error.getMessage()));
      throw error;
    }
  }

  /**
   * What a call made idempotent does.
   *
   * @param <T> the type of its value
   */
  @FunctionalInterface
  public interface Call<T> {
    /**
     * Has the effect.
     *
     * @param claim the right to have it
     * @return the value, when the effect has happened: not a future of it
     * @throws Exception as {@link Handler#handle}
     */
    T call(Claim claim) throws Exception;
  }

  /**
   * Claims a message as a block: see {@link #claim(Delivery)}.
   *
   * @param key the message's name
   * @return the claim
   */
  public Claim claim(Key key) {
    return claim(Delivery.of(key));
  }

  /**
   * Claims a message as a block: {@code try (Claim claim = ledger.claim(delivery)) { if
   * (claim.granted()) { … claim.complete(result); } }}. A claim that is not settled when it is
   * closed ends like an unexpected error. Its loss interrupts no thread: see {@link Claim#check()}
   * and {@link Claim#whenLost()}.
   *
   * @param delivery the message
   * @return the claim, to be closed; its span is not the current one of the thread
   * @throws ClosedException where the client is closed; nothing was sent
   */
  public Claim claim(Delivery delivery) {
    return begin(delivery, () -> false, new Settings(unexpected, false, true));
  }

  /**
   * Stores a message in the ledger's inbox: see {@link #store(Delivery, InboxMessage)}.
   *
   * @param key the message's name
   * @param message the message
   * @return what to do with the broker's message
   */
  public Outcome store(Key key, InboxMessage message) {
    return store(Delivery.of(key), message);
  }

  /**
   * Stores a message in the ledger's inbox, for a {@link #worker}. It returns when the message is
   * durable: acknowledge the broker's message on ACK alone.
   *
   * <p>The fingerprint is that of the payload unless the delivery has another one. {@link
   * Outcome#reason()} is empty where the message is stored, {@code already_stored} or {@code
   * completed} (both replayed) where the ledger knows it; else why it is not: {@code
   * fingerprint_mismatch}, {@code outside_window}, {@code failed}, or the ledger's reason, such as
   * {@code INBOX_OFF}, or {@code BACKLOG_FULL} with a delay.
   *
   * @param delivery the message's name, and when it was made; its wait does not count
   * @param message the message
   * @return what to do with the broker's message
   * @throws InvalidFieldException where the key names a replay run; nothing was sent
   * @throws ClosedException where the client is closed; nothing was sent
   */
  public Outcome store(Delivery delivery, InboxMessage message) {
    if (!delivery.key().replayRun().isEmpty()) {
      throw new InvalidFieldException(
          "key.replay_run", "must be empty: a message of a replay run is not stored");
    }
    if (!inflight.enter(false)) {
      throw new ClosedException();
    }
    try {
      Outcome outcome =
          delivery
              .key()
              .fault()
              .or(message::fault)
              .map(Ledger::atFault)
              .orElseGet(() -> Inbox.store(world, transport, stored(delivery, message)));
      report.outcome(outcome);
      return outcome;
    } finally {
      inflight.leave();
    }
  }

  private StoreRequest stored(Delivery delivery, InboxMessage message) {
    Fingerprint digest = delivery.fingerprint().orElseGet(() -> Fingerprint.of(message.payload()));
    StoreRequest.Builder request =
        StoreRequest.newBuilder()
            .setKey(names(delivery.key()))
            .setMessage(message.sent())
            .setFingerprint(digest.digest());
    delivery.occurredAt().ifPresent(at -> request.setOccurredAt(Protos.timestamp(at)));
    return request.build();
  }

  /**
   * Processes the messages of the inbox, once it is run.
   *
   * @param handler what has the effect of a message
   * @return the worker
   */
  public Worker worker(StoredMessageHandler handler) {
    return new Worker(this, Objects.requireNonNull(handler, "handler"));
  }

  Duration lease() {
    return lease;
  }

  Inflight inflight() {
    return inflight;
  }

  /** A ClaimNext with a new claim_id (rule 1). */
  ClaimNextRequest next(int most, long wait) {
    ClaimNextRequest.Builder request =
        ClaimNextRequest.newBuilder()
            .setConsumer(consumer)
            .setClaimId(UUID.randomUUID().toString())
            .setOwner(owner)
            .setMax(most)
            .setWait(Protos.duration(Duration.ofNanos(wait)));
    if (lease != null) {
      request.setLease(Protos.duration(lease));
    }
    return request.build();
  }

  Handout taken(ClaimNextRequest request) {
    Handout handout = Inbox.take(world, transport, request);
    if (handout.refused() != null) {
      report.outcome(handout.refused());
    }
    return handout;
  }

  /** A message of a handout, which is renewed from now on. */
  WorkQueue.Item handed(Inbox.Item item) {
    inflight.enter(true);
    Settings settings = new Settings(unexpected, interruptLost, false);
    Claim claim = new Claim(item.hold(), null, settings, done -> {});
    Renewal renewal = new Renewal(item.hold(), Timer.shared(), claim::lost);
    // By this process's clock a long wait may have used up the lease: then it is renewed
    // immediately.
    renewal.start();
    return new WorkQueue.Item(claim, renewal, item.message());
  }

  /** Runs the handler of a message that was handed out, unless it may not begin any more. */
  void processed(Claim claim, Renewal renewal, Handler handler, BooleanSupplier stopping) {
    Telemetry.Span span = telemetry.delivery(consumer, true);
    Outcome outcome = null;
    try {
      Begun begun = Course.admitted(claim.hold(), stopping, repeatAnnounced);
      outcome = begun.hold() == null ? begun.outcome() : claim.run(handler);
    } finally {
      handedEnded(renewal, span, outcome);
    }
  }

  /** Gives a message back that no handler has begun. */
  void released(Claim claim, Renewal renewal, long budget) {
    Outcome outcome = null;
    try {
      if (budget > 0 && claim.hold().lost() == null) {
        outcome = Inbox.release(claim.hold(), budget);
      }
    } finally {
      handedEnded(renewal, found -> {}, outcome);
    }
  }

  private void handedEnded(Renewal renewal, Telemetry.Span span, Outcome outcome) {
    try {
      renewal.stop();
      span.end(outcome);
      if (outcome != null) {
        report.outcome(outcome);
      }
    } finally {
      inflight.leave();
    }
  }

  private Outcome process(Delivery delivery, Handler handler, BooleanSupplier gone) {
    Objects.requireNonNull(handler, "handler");
    Claim claim = begin(delivery, gone, new Settings(unexpected, interruptLost, false));
    return claim.granted() ? claim.run(handler) : claim.outcome();
  }

  private Claim begin(Delivery delivery, BooleanSupplier gone, Settings settings) {
    ClaimRequest request = request(delivery);
    if (!inflight.enter(false)) {
      throw new ClosedException();
    }
    Telemetry.Span span = telemetry.delivery(consumer, !settings.scoped());
    Claim claim = null;
    try {
      BooleanSupplier stopping =
          () -> inflight.closing() || gone.getAsBoolean() || Thread.currentThread().isInterrupted();
      Begun begun = begun(delivery, request, stopping);
      claim = claim(begun, settings, span);
      return claim;
    } finally {
      if (claim == null || !claim.granted()) {
        ended(claim, span);
      }
    }
  }

  /** A granted claim is renewed until it has ended. */
  private Claim claim(Begun begun, Settings settings, Telemetry.Span span) {
    if (begun.hold() == null) {
      return new Claim(null, begun.outcome(), settings, claim -> {});
    }
    Renewal[] renewal = new Renewal[1];
    Claim claim =
        new Claim(
            begun.hold(),
            null,
            settings,
            done -> {
              renewal[0].stop();
              ended(done, span);
            });
    renewal[0] = new Renewal(begun.hold(), Timer.shared(), claim::lost);
    renewal[0].start();
    return claim;
  }

  private Begun begun(Delivery delivery, ClaimRequest request, BooleanSupplier stopping) {
    return delivery
        .key()
        .fault()
        .map(Ledger::atFault)
        .map(outcome -> new Begun(null, outcome))
        .orElseGet(() -> Course.begin(world, transport, request, stopping, repeatAnnounced));
  }

  /** The message is at fault, and the ledger would refuse it in the same way. */
  private static Outcome atFault(InvalidFieldException fault) {
    return Outcome.later("INVALID_FIELD")
        .withAdvice(Advice.DEAD_LETTER, Duration.ZERO)
        .withReason("INVALID_FIELD", fault.getMessage())
        .withError(fault);
  }

  private void ended(Claim claim, Telemetry.Span span) {
    try {
      Outcome outcome = claim == null ? null : claim.outcome();
      span.end(outcome);
      if (outcome != null) {
        report.outcome(outcome);
      }
    } finally {
      inflight.leave();
    }
  }

  /**
   * The Claim of a delivery: with a new claim_id, so that it is never taken for another delivery
   * (rule 1).
   */
  private ClaimRequest request(Delivery delivery) {
    ClaimRequest.Builder request =
        ClaimRequest.newBuilder()
            .setKey(names(delivery.key()))
            .setClaimId(UUID.randomUUID().toString())
            .setOwner(owner)
            .setEventType(delivery.eventType());
    delivery.fingerprint().ifPresent(found -> request.setFingerprint(found.digest()));
    delivery.occurredAt().ifPresent(at -> request.setOccurredAt(Protos.timestamp(at)));
    if (lease != null) {
      request.setLease(Protos.duration(lease));
    }
    if (!delivery.longestWait().isZero()) {
      request.setWait(Protos.duration(delivery.longestWait()));
    }
    return request.build();
  }

  private EntryKey names(Key key) {
    boolean right = key.fault().isEmpty(); // A key at fault is not sent.
    return EntryKey.newBuilder()
        .setConsumer(consumer)
        .setSource(right ? key.source() : "")
        .setId(right ? key.id() : "")
        .setReplayRun(key.replayRun())
        .build();
  }

  /**
   * Takes no new delivery, and lets running effects end and settle. A delivery whose claim arrives
   * meanwhile gives it back.
   *
   * @param grace how long to wait for them at most, up to a day
   * @return false where an effect still runs: it may go on, and the process should end; the lease
   *     then ends by itself
   */
  public boolean close(Duration grace) {
    boolean ended = inflight.close(Inflight.nanos(grace));
    if (ended) {
      transport.close();
    }
    return ended;
  }

  /**
   * The consumer of this client.
   *
   * @return the group that processes, as given to {@link #builder}
   */
  public String consumer() {
    return consumer;
  }

  /**
   * Whether no new delivery is taken any more, for readiness checks.
   *
   * @return true from the first {@code close} on
   */
  public boolean closing() {
    return inflight.closing();
  }

  /** Closes with a grace of 20 seconds. */
  @Override
  public void close() {
    close(GRACE);
  }
}
