package idempotencyledger.client;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.UUID;
import java.util.concurrent.Callable;

/**
 * A file of effects that happen without a claim, while the ledger cannot be reached: written down
 * before and after, and reconciled later. One process writes a spool; its threads may share it.
 *
 * <p>Work stops while the ledger is away, unless a consumer chooses otherwise. docs/away.md of the
 * ledger says when that is right, and describes the file: {@code idempotency-ledger entries
 * reconcile FILE} brings it in afterwards. A spool needs a POSIX system.
 */
public final class Spool implements AutoCloseable {
  /** Bytes; the ledger stores no larger result. */
  static final int RESULT_MAX = 16_384;

  private static final Duration SHORTEST_DELAY = Duration.ofMillis(50);

  private final SpoolFile file;
  private final Clock clock;
  private Instant last = Instant.MIN;
  private String failed;
  private boolean closed;

  Spool(SpoolFile file, Clock clock) {
    this.file = file;
    this.clock = clock;
  }

  /**
   * Opens the file. It is made if it does not exist, readable for its owner alone, since it has the
   * results. Next to it is its lock file, with {@code .lock} after its name, which stays.
   *
   * @param path the file, on a local disk that outlives the process
   * @return the spool
   * @throws SpoolFailedException where it cannot be opened, or another process has it
   */
  public static Spool open(Path path) {
    try {
      return new Spool(LockedSpoolFile.open(path), Clock.systemUTC());
    } catch (IOException | UnsupportedOperationException error) {
      throw new SpoolFailedException(path + ": " + error.getMessage(), error);
    }
  }

  /**
   * Runs the effect where {@code found} is {@link Outcome#away()}: see {@link #process(Outcome,
   * String, Delivery, Callable)}.
   *
   * @param found the outcome of {@link Ledger#process(Key, byte[], Handler)}
   * @param consumer the group that processes
   * @param key the message's name
   * @param body the broker's raw body, before any decoding
   * @param effect has the effect
   * @return what became of the delivery
   */
  public Outcome process(
      Outcome found, String consumer, Key key, byte[] body, Callable<byte[]> effect) {
    return process(found, consumer, Delivery.of(key).withBody(body), effect);
  }

  /**
   * Runs the effect where {@code found}, the outcome of {@link Ledger#process}, is {@link
   * Outcome#away()}, and returns any other outcome as it is.
   *
   * <p>The beginning is on the disk before the effect is called, and its end before this returns.
   * The outcome is then: ACK where the effect has returned, with its result; RETRY_LATER where it
   * threw {@link Retry}, {@link Terminal} or {@link GiveBack}, since it certainly did not happen,
   * or {@link Doubtful}; DEAD_LETTER, for a person to look, where it threw any other exception. An
   * {@link Error} is thrown, and leaves the beginning alone. Where the spool cannot be written the
   * outcome is RETRY_LATER and its error a {@link SpoolFailedException}: the effect has not begun,
   * or it has ended and is not noted ({@link Outcome#effectUnknown()}). A key of a replay run is
   * never opened, and a thread that is interrupted begins nothing.
   *
   * @param found the outcome of {@link Ledger#process(Delivery, Handler)}
   * @param consumer the group that processes
   * @param delivery the message; of it the key and the fingerprint count
   * @param effect has the effect, without a claim, a token and protection from a redelivery; its
   *     result is null or no bytes where there is none
   * @return what became of the delivery
   * @throws InvalidFieldException where the consumer is beyond its bound
   */
  public Outcome process(
      Outcome found, String consumer, Delivery delivery, Callable<byte[]> effect) {
    if (effect == null) {
      throw new InvalidFieldException("effect", "must not be null");
    }
    SpoolLine line = line(Texts.checked("consumer", consumer, 128), delivery);
    Key key = delivery.key();
    if (!found.away()
        || !key.replayRun().isEmpty()
        || key.fault().isPresent()
        || Thread.currentThread().isInterrupted()) {
      return found;
    }
    try {
      append("begin", line);
    } catch (SpoolFailedException error) {
      return failed(found, error);
    }
    byte[] result;
    try {
      result = effect.call();
    } catch (Exception error) {
      if (error instanceof InterruptedException) {
        Thread.currentThread().interrupt();
      }
      return threw(line, error);
    }
    return returned(line, result == null ? new byte[0] : result.clone());
  }

  /**
   * Closes the file. An effect that still runs has no end in it.
   *
   * @throws SpoolFailedException where the system reports an error
   */
  @Override
  public synchronized void close() {
    if (closed) {
      return;
    }
    closed = true;
    failed = "the spool is closed";
    try {
      file.close();
    } catch (IOException error) {
      throw new SpoolFailedException("the spool could not be closed: " + error.getMessage(), error);
    }
  }

  private Outcome threw(SpoolLine line, Exception error) {
    String reason = Course.typeName(error);
    if (error instanceof Steer steer) {
      reason = steer.reason().orElse(reason);
    }
    Outcome outcome = Outcome.later(reason).withError(error).withAway(true);
    if (error instanceof Retry || error instanceof Terminal || error instanceof GiveBack) {
      try {
        append("none", line);
      } catch (SpoolFailedException unwritten) {
        // Without this line a person looks, and finds that it did not happen.
      }
      return outcome.withAdvice(Advice.RETRY_LATER, delay(error));
    }
    outcome = outcome.withEffectUnknown(true);
    return error instanceof Doubtful
        ? outcome
        : outcome.withAdvice(Advice.DEAD_LETTER, Duration.ZERO);
  }

  private static Duration delay(Exception error) {
    Duration after = error instanceof GiveBack give ? give.after() : Duration.ZERO;
    if (error instanceof Retry retry) {
      after = retry.after().orElse(Duration.ZERO);
    }
    if (after.isZero()) {
      return Outcome.DEFAULT_DELAY;
    }
    return after.compareTo(SHORTEST_DELAY) < 0 ? SHORTEST_DELAY : after;
  }

  private Outcome returned(SpoolLine line, byte[] result) {
    boolean fits = result.length <= RESULT_MAX;
    Outcome outcome = Outcome.later(null).withAway(true);
    try {
      append("end", fits ? line.withResult(result) : line);
    } catch (SpoolFailedException error) {
      return failed(outcome.withResult(result, false).withEffectUnknown(true), error);
    }
    return outcome.withResult(result, !fits).withAdvice(Advice.ACK, Duration.ZERO);
  }

  private static Outcome failed(Outcome outcome, SpoolFailedException error) {
    return outcome.withReason("SPOOL_FAILED", error.getMessage()).withError(error);
  }

  /** What all lines of one effect have in common. */
  private static SpoolLine line(String consumer, Delivery delivery) {
    byte[] digest =
        delivery.fingerprint().map(found -> found.digest().toByteArray()).orElse(new byte[0]);
    String row = UUID.randomUUID().toString().replace("-", "");
    Key key = delivery.key();
    return new SpoolLine(row, consumer, key.source(), key.id(), digest, new byte[0]);
  }

  /** Appends a line, and returns when it is on the disk. */
  private synchronized void append(String event, SpoolLine line) {
    if (failed != null) {
      throw new SpoolFailedException(failed, null);
    }
    // Later than all lines before: key and instant identify a row, and an end follows its
    // beginning.
    Instant now = clock.instant().truncatedTo(ChronoUnit.MICROS);
    last = now.isAfter(last) ? now : last.plus(1, ChronoUnit.MICROS);
    try {
      file.append(line.render(event, last));
      file.sync();
    } catch (IOException error) {
      failed = "the spool could not be written (" + error.getMessage() + "): open another file";
      throw new SpoolFailedException(failed, error);
    }
  }
}
