package idempotencyledger.client;

import com.google.protobuf.Duration;
import com.google.protobuf.Timestamp;
import idempotencyledger.client.proto.Advice;
import java.time.Instant;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/** Times and advices between the messages of the ledger and Java. */
final class Protos {
  /** Further away than any hold; additions to an instant do not overflow. */
  static final long FOREVER = Long.MAX_VALUE / 4;

  private static final long MOST_SECONDS = TimeUnit.NANOSECONDS.toSeconds(FOREVER);

  private Protos() {}

  /** The nanoseconds of a duration. */
  static long nanos(Duration duration) {
    return duration.getSeconds() >= MOST_SECONDS
        ? FOREVER
        : TimeUnit.SECONDS.toNanos(duration.getSeconds()) + duration.getNanos();
  }

  /** In whole microseconds: the ledger refuses a part of one. */
  static Duration duration(java.time.Duration value) {
    int nanos = value.getNano() / 1_000 * 1_000;
    return Duration.newBuilder().setSeconds(value.getSeconds()).setNanos(nanos).build();
  }

  static Timestamp timestamp(Instant value) {
    return Timestamp.newBuilder()
        .setSeconds(value.getEpochSecond())
        .setNanos(value.getNano())
        .build();
  }

  /**
   * The advice of an answer; empty for PROCESS, for none, and for one that this version does not
   * know.
   */
  static Optional<idempotencyledger.client.Advice> advice(Advice advice) {
    return switch (advice) {
      case ADVICE_ACK -> Optional.of(idempotencyledger.client.Advice.ACK);
      case ADVICE_RETRY_LATER -> Optional.of(idempotencyledger.client.Advice.RETRY_LATER);
      case ADVICE_DEAD_LETTER -> Optional.of(idempotencyledger.client.Advice.DEAD_LETTER);
      default -> Optional.empty();
    };
  }
}
