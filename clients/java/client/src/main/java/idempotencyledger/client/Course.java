package idempotencyledger.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import idempotencyledger.client.Ending.Done;
import idempotencyledger.client.Ending.Thrown;
import idempotencyledger.client.Transport.Answer;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.ClaimResponse.VerdictCase;
import idempotencyledger.client.proto.CompleteRequest;
import idempotencyledger.client.proto.CompleteResponse;
import idempotencyledger.client.proto.Completed;
import idempotencyledger.client.proto.FailRequest;
import idempotencyledger.client.proto.FailResponse;
import idempotencyledger.client.proto.FailureKind;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import idempotencyledger.client.proto.ReleaseRequest;
import idempotencyledger.client.proto.ReleaseResponse;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.Locale;
import java.util.Optional;
import java.util.function.BooleanSupplier;

/**
 * The way of one delivery: claim, the handler's work, settlement. Each rule cites docs/clients.md
 * by its number.
 */
final class Course {
  /** Characters; the ledger cuts at 2 KiB. */
  private static final int ERROR_LENGTH = 2000;

  /** Until a claim is tried again whose policy does not protect its effect. */
  private static final Duration MENDING_DELAY = Duration.ofSeconds(5);

  private static final Duration SHORTEST_DELAY = Duration.ofMillis(50);

  private Course() {}

  /** A granted claim where the handler shall run, else what became of the delivery. */
  record Begun(Hold hold, Outcome outcome) {}

  /** Claims the message. */
  static Begun begin(
      World world,
      Transport transport,
      ClaimRequest request,
      BooleanSupplier stopping,
      boolean repeatAnnounced) {
    if (stopping.getAsBoolean()) {
      return new Begun(null, Outcome.later("CLOSING"));
    }
    long wait = Protos.nanos(request.getWait());
    Answer<ClaimResponse> answer;
    try {
      answer =
          transport.repeated(
              world,
              LedgerServiceGrpc.getClaimMethod(),
              request,
              world.claimBudget() + wait,
              world.callTimeout() + wait);
    } catch (CallFailed error) {
      Failure failure = error.failure();
      return new Begun(null, refused(failure, Outcome.later(null)).withAway(failure.away()));
    }
    ClaimResponse claimed = answer.message();
    // Rule 9: only this verdict with only this advice is a grant.
    boolean process = claimed.getAdvice() == idempotencyledger.client.proto.Advice.ADVICE_PROCESS;
    if (!process || claimed.getVerdictCase() != VerdictCase.ACQUIRED) {
      return new Begun(null, verdict(claimed));
    }
    Hold hold = new Hold(world, transport, request, claimed.getAcquired(), answer.sent());
    return admitted(hold, stopping, repeatAnnounced);
  }

  /** The claim, where its handler may begin now; else what became of it. */
  static Begun admitted(Hold hold, BooleanSupplier stopping, boolean repeatAnnounced) {
    if (hold.lost() != null) { // While it waited for a handler: nothing is settled.
      return new Begun(null, Outcome.later(hold.lost()));
    }
    if (stopping.getAsBoolean()) {
      return new Begun(null, givenBack(hold, "CLOSING"));
    }
    if (!hold.madeSure()) {
      return new Begun(null, givenBack(hold, Hold.LEASE_OVER));
    }
    if (hold.granted().getPriorEffectStarted() && !repeatAnnounced) { // Rule 14.
      Park park = new Park("an earlier attempt had announced its effect");
      Outcome parked = finish(hold, new Thrown(park, false), Unexpected.PARK);
      return new Begun(
          null,
          parked
              .withReason("PRIOR_EFFECT_STARTED", parked.detail())
              .withEffectUnknown(true)
              .withError(null));
    }
    return new Begun(hold, null);
  }

  static Outcome givenBack(Hold hold, String reason) {
    Outcome outcome = finish(hold, new Thrown(new GiveBack(), false), Unexpected.PARK);
    return outcome.withReason(reason, outcome.detail()).withError(null);
  }

  /** Settles by how the handler ended. Nothing is sent after the first settlement (rule 13). */
  static Outcome finish(Hold hold, Ending ending, Unexpected unexpected) {
    if (hold.settled() != null) {
      return hold.settled().withError(ending.error());
    }
    Outcome outcome;
    if (ending instanceof Done done) {
      hold.setCompleting();
      outcome = complete(hold, done);
    } else if (hold.completing()) {
      outcome = Outcome.later("NO_ANSWER");
    } else {
      outcome = failed(hold, steered(hold, (Thrown) ending, unexpected));
    }
    boolean unknown = outcome.effectUnknown() || hold.granted().getEffectUnknown();
    hold.settled(
        outcome
            .withAttempt(hold.granted().getAttempt())
            .withError(ending.error())
            .withEffectUnknown(unknown));
    return hold.settled();
  }

  /** What an error of the handler says of its effect. */
  private static Steer steered(Hold hold, Thrown thrown, Unexpected unexpected) {
    Throwable error = thrown.error();
    if (error instanceof Steer steer) {
      return steer;
    }
    if (error instanceof NotProtectedException) { // Rule 15: nothing has begun.
      return new GiveBack("NOT_PROTECTED", MENDING_DELAY, false);
    }
    // A handler that was interrupted, or whose claim is lost, cannot say what became of the effect:
    // rule 12.
    if (error instanceof ClaimLostException || hold.lost() != null || thrown.interrupted()) {
      return new Doubtful(hold.over() == null ? "INTERRUPTED" : hold.over());
    }
    return unexpected.because(typeName(error));
  }

  private static Outcome complete(Hold hold, Done done) {
    byte[] known = done.leftOut() ? null : done.result();
    Outcome base = Outcome.later(null).withResult(known, done.leftOut());
    CompleteRequest request =
        CompleteRequest.newBuilder()
            .setKey(hold.request().getKey())
            .setToken(hold.granted().getToken())
            .setResult(ByteString.copyFrom(done.result()))
            .setResultLeftOut(done.leftOut())
            .setEventType(hold.request().getEventType())
            .build();
    CompleteResponse answer;
    try {
      answer = settle(hold, LedgerServiceGrpc.getCompleteMethod(), request);
    } catch (CallFailed error) {
      if (!"TOO_LARGE".equals(error.failure().reason()) || done.result().length == 0) {
        return refused(error.failure(), base);
      }
      try { // Rule 22.
        request = request.toBuilder().clearResult().setResultLeftOut(true).build();
        answer = settle(hold, LedgerServiceGrpc.getCompleteMethod(), request);
      } catch (CallFailed second) {
        return refused(second.failure(), base);
      }
    }
    base = base.withResult(known, answer.getResultDropped()); // Rule 21.
    return advised(Protos.advice(answer.getAdvice()), null, base);
  }

  private static Outcome failed(Hold hold, Steer steer) {
    if (steer instanceof Doubtful) { // Rule 12: nothing is settled, and the lease ends by itself.
      return Outcome.later(steer.reason().orElse("DOUBTFUL")).withEffectUnknown(true);
    }
    Outcome base = Outcome.later(steer.reason().orElseGet(() -> typeName(steer)));
    try {
      return steer instanceof GiveBack give ? release(hold, give, base) : fail(hold, steer, base);
    } catch (CallFailed error) {
      return refused(error.failure(), base);
    }
  }

  private static Outcome release(Hold hold, GiveBack give, Outcome base) throws CallFailed {
    ReleaseRequest request =
        ReleaseRequest.newBuilder()
            .setKey(hold.request().getKey())
            .setToken(hold.granted().getToken())
            .setDelay(Protos.duration(give.after()))
            .setUnpinFingerprint(give.unpinFingerprint())
            .setEventType(hold.request().getEventType())
            .build();
    ReleaseResponse answer = settle(hold, LedgerServiceGrpc.getReleaseMethod(), request);
    return advised(Protos.advice(answer.getAdvice()), give.after(), base);
  }

  private static Outcome fail(Hold hold, Steer steer, Outcome base) throws CallFailed {
    String reason = base.reason().orElse("");
    FailRequest.Builder request =
        FailRequest.newBuilder()
            .setKey(hold.request().getKey())
            .setToken(hold.granted().getToken())
            .setKind(kind(steer))
            .setError(reason.substring(0, Math.min(reason.length(), ERROR_LENGTH)))
            .setEventType(hold.request().getEventType());
    if (steer instanceof Retry retry) {
      retry.after().ifPresent(after -> request.setRetryAfter(Protos.duration(after)));
    }
    FailResponse answer = settle(hold, LedgerServiceGrpc.getFailMethod(), request.build());
    return advised(
        Protos.advice(answer.getAdvice()),
        answer.hasRetryAfter()
            ? Duration.ofNanos(Protos.nanos(answer.getRetryAfter()))
            : base.delay(),
        base);
  }

  private static FailureKind kind(Steer steer) {
    if (steer instanceof Retry) {
      return FailureKind.FAILURE_KIND_RETRYABLE;
    }
    return steer instanceof Terminal
        ? FailureKind.FAILURE_KIND_TERMINAL
        : FailureKind.FAILURE_KIND_PARK;
  }

  private static <Q extends Message, R> R settle(
      Hold hold, MethodDescriptor<Q, R> method, Q request) throws CallFailed {
    World world = hold.world();
    return hold.transport()
        .repeated(world, method, request, world.settleBudget(), world.callTimeout())
        .message();
  }

  /**
   * What a verdict other than a grant says. One that this version does not know means RETRY_LATER
   * (rule 8).
   */
  private static Outcome verdict(ClaimResponse answer) {
    VerdictCase verdict = answer.getVerdictCase();
    String name = verdict.name().toLowerCase(Locale.ROOT);
    boolean known = verdict != VerdictCase.VERDICT_NOT_SET && verdict != VerdictCase.ACQUIRED;
    Outcome base = Outcome.later(verdict == VerdictCase.VERDICT_NOT_SET ? "UNKNOWN_VERDICT" : name);
    Duration named =
        answer.hasRetryAfter() ? Duration.ofNanos(Protos.nanos(answer.getRetryAfter())) : null;
    Optional<Advice> advice = known ? Protos.advice(answer.getAdvice()) : Optional.empty();
    Outcome outcome = advised(advice, named, base);
    if (verdict != VerdictCase.COMPLETED || advice.isEmpty()) {
      return outcome;
    }
    Completed done = answer.getCompleted();
    boolean missing = done.getResultDropped() || done.getResultExpired() || done.getResultOmitted();
    return outcome
        .withResult(missing ? null : done.getResult().toByteArray(), done.getResultDropped())
        .withReplayed(done.getAttempt());
  }

  /**
   * The base with the advice of an answer (rules 7 and 8), and with the wait that it names (rule
   * 10).
   */
  static Outcome advised(Optional<Advice> advice, Duration named, Outcome base) {
    Duration delay = named == null ? Outcome.DEFAULT_DELAY : longer(named);
    return base.withAdvice(advice.orElse(Advice.RETRY_LATER), delay);
  }

  /**
   * What an error says: its own advice (rule 5), and RETRY_LATER where it is not the ledger's (rule
   * 3).
   */
  static Outcome refused(Failure failure, Outcome base) {
    Duration delay =
        failure.retryAfter() < 0
            ? Outcome.DEFAULT_DELAY
            : longer(Duration.ofNanos(failure.retryAfter()));
    return base.withAdvice(failure.advised(), delay).withReason(failure.name(), failure.text());
  }

  private static Duration longer(Duration delay) {
    return delay.compareTo(SHORTEST_DELAY) < 0 ? SHORTEST_DELAY : delay;
  }

  static String typeName(Object thing) {
    String name = thing.getClass().getSimpleName();
    return name.isEmpty() ? thing.getClass().getName().replaceFirst("^.*[.]", "") : name;
  }
}
