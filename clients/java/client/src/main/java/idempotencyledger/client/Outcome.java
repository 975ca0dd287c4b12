package idempotencyledger.client;

import java.time.Duration;
import java.util.Optional;

/** What became of a delivery. Acknowledge on {@link Advice#ACK} alone. */
public final class Outcome {
  static final Duration DEFAULT_DELAY = Duration.ofSeconds(1);

  private Advice advice = Advice.RETRY_LATER;
  private Duration delay = DEFAULT_DELAY;
  private byte[] result;
  private boolean replayed;
  private boolean resultDropped;
  private boolean effectUnknown;
  private String reason;
  private String detail = "";
  private int attempt;
  private Throwable error;
  private boolean away;

  private Outcome() {}

  /** RETRY_LATER after a second, for this reason. */
  static Outcome later(String reason) {
    Outcome made = new Outcome();
    made.reason = reason;
    return made;
  }

  private Outcome copy() {
    Outcome made = new Outcome();
    made.advice = advice;
    made.delay = delay;
    made.result = result;
    made.replayed = replayed;
    made.resultDropped = resultDropped;
    made.effectUnknown = effectUnknown;
    made.reason = reason;
    made.detail = detail;
    made.attempt = attempt;
    made.error = error;
    made.away = away;
    return made;
  }

  Outcome withAdvice(Advice advice, Duration delay) {
    Outcome made = copy();
    made.advice = advice;
    made.delay = advice == Advice.RETRY_LATER ? delay : Duration.ZERO;
    return made;
  }

  Outcome withResult(byte[] result, boolean dropped) {
    Outcome made = copy();
    made.result = result;
    made.resultDropped = dropped;
    return made;
  }

  Outcome withReplayed(int attempt) {
    Outcome made = copy();
    made.replayed = true;
    made.reason = null;
    made.attempt = attempt;
    return made;
  }

  Outcome withReason(String reason, String detail) {
    Outcome made = copy();
    made.reason = reason;
    made.detail = detail;
    return made;
  }

  Outcome withEffectUnknown(boolean effectUnknown) {
    Outcome made = copy();
    made.effectUnknown = effectUnknown;
    return made;
  }

  Outcome withAttempt(int attempt) {
    Outcome made = copy();
    made.attempt = attempt;
    return made;
  }

  Outcome withError(Throwable error) {
    Outcome made = copy();
    made.error = error;
    return made;
  }

  Outcome withAway(boolean away) {
    Outcome made = copy();
    made.away = away;
    return made;
  }

  /**
   * What to do with the broker's message.
   *
   * @return the advice
   */
  public Advice advice() {
    return advice;
  }

  /**
   * At least how long to wait before the next delivery.
   *
   * @return at least 50 ms with RETRY_LATER, else zero
   */
  public Duration delay() {
    return delay;
  }

  /**
   * What the handler of this or of the earlier attempt returned.
   *
   * @return a copy of the result; empty where it is not known here, of no bytes where there was
   *     none
   */
  public Optional<byte[]> result() {
    return Optional.ofNullable(result).map(byte[]::clone);
  }

  /**
   * Whether an earlier attempt completed the message, so that no handler ran for this delivery.
   *
   * @return true for the answer to a repeated delivery
   */
  public boolean replayed() {
    return replayed;
  }

  /**
   * Whether the effect had a result that the ledger has not stored, since it was too large.
   *
   * @return true where the result is not stored; the message is completed all the same
   */
  public boolean resultDropped() {
    return resultDropped;
  }

  /**
   * Whether an earlier attempt may have had its effect, or this attempt ended in doubt.
   *
   * @return true where an effect is in doubt
   */
  public boolean effectUnknown() {
    return effectUnknown;
  }

  /**
   * Why, where it is not simply done: the ledger's reason ({@code LEASE_LOST}), its verdict ({@code
   * parked}), the reason that the handler gave, or one of the package: {@code INVALID_FIELD},
   * {@code PRIOR_EFFECT_STARTED}, {@code NOT_PROTECTED}, {@code CLOSING}, {@code LEASE_OVER},
   * {@code DOUBTFUL}, {@code INTERRUPTED}, {@code NOT_SETTLED}, {@code UNKNOWN_VERDICT}, {@code
   * NO_ANSWER}.
   *
   * @return the reason; empty where the message is done
   */
  public Optional<String> reason() {
    return Optional.ofNullable(reason);
  }

  /**
   * What the error of a call said, for people: a field at fault with its bound, or the endpoint and
   * why it did not answer.
   *
   * @return the text, at most 500 characters; empty where no call ended with an error
   */
  public String detail() {
    return detail;
  }

  /**
   * Which attempt this was, or how many there were.
   *
   * @return from 1 on; 0 where it is not known
   */
  public int attempt() {
    return attempt;
  }

  /**
   * What the handler threw, for the application's log; it is not sent to the ledger.
   *
   * @return the error; empty where the handler threw none
   */
  public Optional<Throwable> error() {
    return Optional.ofNullable(error);
  }

  /**
   * Whether Claim itself was not answered (UNAVAILABLE, DEADLINE_EXCEEDED, or no connection), so
   * that no handler ran. Only then may a consumer that has chosen to work without the ledger go on,
   * by a {@link Spool}.
   *
   * @return true where the ledger is away
   */
  public boolean away() {
    return away;
  }

  /** The outcome without its result. */
  @Override
  public String toString() {
    return "Outcome["
        + advice
        + (advice == Advice.RETRY_LATER ? " after " + delay : "")
        + (reason == null ? "" : ", " + reason)
        + (replayed ? ", replayed" : "")
        + (effectUnknown ? ", effect unknown" : "")
        + (away ? ", ledger away" : "")
        + "]";
  }
}
