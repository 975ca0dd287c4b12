package idempotencyledger.client;

import idempotencyledger.client.Ending.Done;
import idempotencyledger.client.Ending.Thrown;
import idempotencyledger.client.proto.Acquired;
import java.nio.channels.ClosedByInterruptException;
import java.time.Duration;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * The right to process a message now, where {@link #granted()}. It is held under a lease that is
 * renewed meanwhile.
 *
 * <p>A handler that {@link Ledger#process} runs is given its claim, and returns or throws; it need
 * not settle or close it. A claim of {@link Ledger#claim} is settled by {@link #complete} or {@link
 * #settle}, and closed. Its methods may be called by any thread.
 */
public final class Claim implements AutoCloseable {
  /** What becomes of a claim should its lease end. */
  public enum OnExpiry {
    /** Another attempt is granted the message; an announcement protects nothing. */
    RECLAIM,
    /** The message waits for a person. */
    PARK,
    /** The message waits for a person where its effect was announced. */
    PARK_IF_STARTED,
    /** The server has not said it, or this version does not know it. */
    UNKNOWN
  }

  private final Hold hold;
  private final Settings settings;
  private final Consumer<Claim> ended;
  private final ReentrantLock settling = new ReentrantLock();
  private final CompletableFuture<String> whenLost = new CompletableFuture<>();
  private final Object running = new Object();
  private Thread handler;
  private boolean interrupted;
  private boolean closed;
  private volatile Outcome outcome;

  /** What an error means, and whether the loss of the claim interrupts its handler. */
  record Settings(Unexpected unexpected, boolean interrupts, boolean scoped) {}

  /** With a hold it is granted, else the outcome is known. */
  Claim(Hold hold, Outcome outcome, Settings settings, Consumer<Claim> ended) {
    this.hold = hold;
    this.outcome = outcome;
    this.settings = settings;
    this.ended = ended;
  }

  /**
   * Whether the message is to be processed now.
   *
   * @return true: process it; false: {@link #outcome()} says what to do with it
   */
  public boolean granted() {
    return hold != null;
  }

  /**
   * What became of the delivery.
   *
   * @return the outcome
   * @throws NotGrantedException while the claim is not settled
   */
  public Outcome outcome() {
    Outcome known = outcome != null || hold == null ? outcome : hold.settled();
    if (known == null) {
      throw new NotGrantedException("the claim is not settled yet, so that it has no outcome");
    }
    return known;
  }

  /**
   * The fence: write it with the effect, and let the store refuse a lower one.
   *
   * @return the token, below 2^53
   * @throws NotGrantedException where the claim is not granted
   */
  public long token() {
    return acquired().getToken();
  }

  /**
   * The same on every attempt: hand it to a provider that deduplicates by such a key.
   *
   * @return a UUID as text
   * @throws NotGrantedException where the claim is not granted
   */
  public String idempotencyKey() {
    return acquired().getIdempotencyKey();
  }

  /**
   * Which attempt this is.
   *
   * @return from 1 on
   * @throws NotGrantedException where the claim is not granted
   */
  public int attempt() {
    return acquired().getAttempt();
  }

  /**
   * How many attempts are left after this one.
   *
   * @return the number; empty where there is no limit
   * @throws NotGrantedException where the claim is not granted
   */
  public OptionalInt attemptsLeft() {
    return acquired().hasAttemptsLeft()
        ? OptionalInt.of(acquired().getAttemptsLeft())
        : OptionalInt.empty();
  }

  /**
   * Whether an earlier attempt may have had its effect: look before an effect that is not
   * idempotent is repeated.
   *
   * @return true where it may
   * @throws NotGrantedException where the claim is not granted
   */
  public boolean effectUnknown() {
    return acquired().getEffectUnknown();
  }

  /**
   * Whether an earlier attempt had announced its effect. Only with {@link
   * LedgerBuilder#repeatAnnounced} a handler sees this.
   *
   * @return true where it had
   * @throws NotGrantedException where the claim is not granted
   */
  public boolean priorEffectStarted() {
    return acquired().getPriorEffectStarted();
  }

  /**
   * What an earlier attempt saved.
   *
   * @return the checkpoint; no bytes where there is none
   * @throws NotGrantedException where the claim is not granted
   */
  public byte[] checkpoint() {
    return acquired().getCheckpoint().toByteArray();
  }

  /**
   * The error of the last failed attempt.
   *
   * @return its text; empty where there is none
   * @throws NotGrantedException where the claim is not granted
   */
  public String lastError() {
    return acquired().getLastError();
  }

  /**
   * What becomes of this claim should its lease end.
   *
   * @return by the policy of the consumer as it was when the claim was granted
   * @throws NotGrantedException where the claim is not granted
   */
  public OnExpiry onExpiry() {
    return switch (acquired().getOnExpiry()) {
      case ON_EXPIRY_RECLAIM -> OnExpiry.RECLAIM;
      case ON_EXPIRY_PARK -> OnExpiry.PARK;
      case ON_EXPIRY_PARK_IF_STARTED -> OnExpiry.PARK_IF_STARTED;
      default -> OnExpiry.UNKNOWN;
    };
  }

  /**
   * Whether {@link #announce()} was called: the ledger may know that the effect was about to start.
   *
   * @return true from the call on
   * @throws NotGrantedException where the claim is not granted
   */
  public boolean announced() {
    return hold().announced();
  }

  /**
   * How long the claim is held at most from now on, whatever is renewed.
   *
   * @return zero where that is over
   * @throws NotGrantedException where the claim is not granted
   */
  public Duration holdLeft() {
    return Duration.ofNanos(Math.max(0, hold().holdUntil() - hold().world().now()));
  }

  /**
   * Why the claim is not held any more.
   *
   * @return {@code LEASE_OVER} where the lease ended by this process's clock, else the ledger's
   *     reason, such as {@code LEASE_LOST}; empty while it is held
   * @throws NotGrantedException where the claim is not granted
   */
  public Optional<String> lost() {
    return Optional.ofNullable(hold().over());
  }

  /**
   * Completes with the reason when the claim is lost, for handlers that wait in other threads. It
   * never completes where the claim is settled before.
   *
   * @return the stage
   */
  public CompletionStage<String> whenLost() {
    return whenLost.copy();
  }

  /**
   * Checks that the claim is held. Call it before each part of a long effect.
   *
   * @throws ClaimLostException where it is not held any more
   * @throws NotGrantedException where the claim is not granted
   */
  public void check() {
    hold().check();
  }

  /**
   * Tells the ledger that an effect is about to start which can be neither fenced nor deduplicated.
   * Start the effect after this has returned, and not otherwise.
   *
   * @throws NotProtectedException where the policy would not park the message should this process
   *     die
   * @throws AnnouncementFailedException where the ledger has not confirmed it until the lease ends
   * @throws ClaimLostException where the claim is lost; let all of these pass
   * @throws NotGrantedException where the claim is not granted
   */
  public void announce() {
    hold().announce();
  }

  /**
   * Stores progress that the next attempt finds.
   *
   * @param checkpoint at most 16 KiB by default
   * @throws CheckpointDroppedException where it is too large and not stored; the earlier one stays
   * @throws ClaimLostException where the claim is lost
   * @throws NotGrantedException where the claim is not granted
   */
  public void save(byte[] checkpoint) {
    hold().save(checkpoint);
  }

  /**
   * Settles: the effect is done. Nothing that follows is settled by this claim any more.
   *
   * @param result what later deliveries are answered, at most 16 KiB by default; null: nothing
   * @return what to do with the message
   * @throws NotGrantedException where the claim is not granted
   */
  public Outcome complete(byte[] result) {
    return finish(Done.of(result));
  }

  /**
   * Settles by how the attempt ended. Nothing that follows is settled by this claim any more.
   *
   * @param steer {@link Retry}, {@link Terminal}, {@link Park}, {@link Doubtful} or {@link
   *     GiveBack}; it is not thrown
   * @return what to do with the message
   * @throws NotGrantedException where the claim is not granted
   */
  public Outcome settle(Steer steer) {
    return finish(new Thrown(steer, false));
  }

  /**
   * Ends a claim of {@link Ledger#claim}. One that was granted and not settled ends like a handler
   * that has thrown an unexpected error, with the reason {@code NOT_SETTLED}. Does nothing to a
   * claim that a handler was given.
   */
  @Override
  public void close() {
    if (!settings.scoped() || !granted()) {
      return;
    }
    synchronized (running) {
      if (closed) {
        return;
      }
      closed = true;
    }
    try {
      outcome =
          hold.settled() != null
              ? hold.settled()
              : finish(new Thrown(settings.unexpected().because("NOT_SETTLED"), false));
    } finally {
      ended.accept(this);
    }
  }

  /** Runs the handler, and settles by how it ends. Throws an {@link Error} of the handler. */
  Outcome run(Handler work) {
    try {
      outcome = finish(ending(work));
    } finally {
      ended.accept(this);
    }
    if (outcome.error().orElse(null) instanceof Error error) {
      throw error;
    }
    return outcome;
  }

  private Ending ending(Handler work) {
    synchronized (running) {
      handler = Thread.currentThread();
    }
    try {
      byte[] result = work.handle(this);
      left();
      return Done.of(result);
    } catch (Throwable error) { // Whatever it is, its claim is settled.
      boolean ours = left();
      boolean cut = error instanceof InterruptedException;
      if (cut && !ours) {
        Thread.currentThread().interrupt();
      }
      boolean others =
          cut
              || error instanceof ClosedByInterruptException
              || Thread.currentThread().isInterrupted();
      return new Thrown(error, others && !ours);
    }
  }

  /**
   * The handler has ended: true where the loss of the claim has interrupted it, of which its thread
   * is relieved.
   */
  private boolean left() {
    synchronized (running) {
      handler = null;
      if (interrupted) {
        Thread.interrupted();
      }
      return interrupted;
    }
  }

  /** The claim is lost: the handler is interrupted, unless it has ended. */
  void lost(String reason) {
    hold.lost(reason);
    synchronized (running) {
      if (handler != null && settings.interrupts()) {
        interrupted = true;
        handler.interrupt();
      }
    }
    whenLost.completeAsync(() -> reason);
  }

  Outcome finish(Ending ending) {
    Hold held = hold();
    settling.lock();
    try {
      return Course.finish(held, ending, settings.unexpected());
    } finally {
      settling.unlock();
    }
  }

  Hold hold() {
    if (hold == null) {
      throw new NotGrantedException("the claim was not granted: " + outcome);
    }
    return hold;
  }

  private Acquired acquired() {
    return hold().granted();
  }
}
