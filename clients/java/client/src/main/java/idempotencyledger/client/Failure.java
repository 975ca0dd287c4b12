package idempotencyledger.client;

import io.grpc.Metadata;
import io.grpc.Status;
import java.util.Arrays;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * A call that ended with an error.
 *
 * @param code the status code of gRPC
 * @param reason the ledger's reason; null where the ledger did not make the error
 * @param advice the bare word of the ledger's advice, or null
 * @param retryAfter nanoseconds after which the identical request may be answered otherwise;
 *     negative where none is named
 * @param text what the error says, for people
 */
record Failure(String code, String reason, String advice, long retryAfter, String text) {
  private static final Metadata.Key<String> REASON = key("idempotency-ledger-reason");
  private static final Metadata.Key<String> ADVICE = key("idempotency-ledger-advice");
  private static final Metadata.Key<String> RETRY_AFTER = key("idempotency-ledger-retry-after-ms");

  /** The ledger's own errors after which it is unknown whether the call was applied. */
  private static final Set<String> UNKNOWN =
      Set.of("OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED");

  private static final int TEXT_LENGTH = 500;

  /** Reads the trailers with which the ledger marks its own errors. */
  static Failure of(Throwable error) {
    Status status = Status.fromThrowable(error);
    Metadata found = Status.trailersFromThrowable(error);
    Metadata trailers = found == null ? new Metadata() : found;
    String text = status.getDescription() == null ? "" : status.getDescription();
    return new Failure(
        status.getCode().name(),
        trailers.get(REASON),
        trailers.get(ADVICE),
        millis(trailers.get(RETRY_AFTER)),
        line(text));
  }

  /**
   * The same; where the ledger did not make the error, its text names the endpoint: gRPC's own is
   * often "io exception".
   */
  Failure of(String endpoint) {
    if (reason != null) {
      return this;
    }
    String named = "no answer from " + endpoint + " (option endpoint, else LEDGER_ENDPOINT): ";
    return new Failure(code, null, advice, retryAfter, line(named + text));
  }

  /** One line, without the stack traces that gRPC puts into its texts. */
  private static String line(String text) {
    String one = text.replaceAll("\\R\\s+at .*", "").replaceAll("\\s+", " ").strip();
    return one.substring(0, Math.min(one.length(), TEXT_LENGTH));
  }

  /** It is unknown whether the call was applied: only its repeat finds out. */
  boolean unknown() {
    return reason == null || UNKNOWN.contains(reason);
  }

  /** The identical request may be answered otherwise. */
  boolean repeatable() {
    return unknown() || retryAfter >= 0;
  }

  /** The ledger could not be reached, or could not serve. Any other error is an answer. */
  boolean away() {
    return code.equals("UNAVAILABLE") || code.equals("DEADLINE_EXCEEDED");
  }

  /**
   * The advice of the error; RETRY_LATER without one, and for one that this version does not know.
   */
  Advice advised() {
    return Arrays.stream(Advice.values())
        .filter(known -> reason != null && known.name().equals(advice))
        .findFirst()
        .orElse(Advice.RETRY_LATER);
  }

  /** The reason, for people. */
  String name() {
    return reason == null ? "NO_ANSWER (" + code + ")" : reason;
  }

  private static long millis(String text) {
    return text != null && text.matches("[0-9]{1,12}")
        ? TimeUnit.MILLISECONDS.toNanos(Long.parseLong(text))
        : -1;
  }

  private static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }
}
