package idempotencyledger.client;

import idempotencyledger.client.Transport.Answer;
import idempotencyledger.client.proto.ClaimNextRequest;
import idempotencyledger.client.proto.ClaimNextResponse;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.Handed;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import idempotencyledger.client.proto.StoreRequest;
import idempotencyledger.client.proto.StoreResponse;
import idempotencyledger.client.proto.StoreResponse.VerdictCase;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.TimeUnit;

/**
 * The inbox: how a message is stored, and how a worker takes those that are due (docs/contract.md,
 * section 15).
 */
final class Inbox {
  private static final long SHORTEST_PAUSE = TimeUnit.MILLISECONDS.toNanos(50);

  private Inbox() {}

  /** Stores the message. */
  static Outcome store(World world, Transport transport, StoreRequest request) {
    StoreResponse answer;
    try {
      answer =
          transport
              .repeated(
                  world,
                  LedgerServiceGrpc.getStoreMethod(),
                  request,
                  world.claimBudget(),
                  world.callTimeout())
              .message();
    } catch (CallFailed error) {
      return Course.refused(error.failure(), Outcome.later(null));
    }
    VerdictCase verdict = answer.getVerdictCase();
    Optional<Advice> advice = Protos.advice(answer.getAdvice());
    if (verdict == VerdictCase.VERDICT_NOT_SET || advice.isEmpty()) { // Rule 8.
      return Outcome.later("UNKNOWN_VERDICT");
    }
    Duration named =
        answer.hasRetryAfter() ? Duration.ofNanos(Protos.nanos(answer.getRetryAfter())) : null;
    Outcome outcome = Course.advised(advice, named, Outcome.later(null));
    String reason = verdict == VerdictCase.STORED ? null : verdict.name().toLowerCase(Locale.ROOT);
    boolean known = verdict == VerdictCase.ALREADY_STORED || verdict == VerdictCase.COMPLETED;
    return (known ? outcome.withReplayed(0) : outcome).withReason(reason, "");
  }

  /** A message of a handout. */
  record Item(Hold hold, StoredMessage message) {}

  /**
   * What one ClaimNext came to.
   *
   * @param pause nanoseconds to wait before the next call
   * @param again the outcome is unknown: the identical request, with its claim_id, finds what it
   *     was handed out
   * @param refused why the call was refused, for the log; null where it was not
   */
  record Handout(List<Item> items, long pause, boolean again, Outcome refused) {}

  /**
   * Sends one ClaimNext and its repeats. Each hold counts from before the try that was answered.
   */
  static Handout take(World world, Transport transport, ClaimNextRequest request) {
    long wait = Protos.nanos(request.getWait());
    Answer<ClaimNextResponse> answer;
    try {
      answer =
          transport.repeated(
              world,
              LedgerServiceGrpc.getClaimNextMethod(),
              request,
              world.claimBudget() + wait,
              world.callTimeout() + wait);
    } catch (CallFailed error) {
      Failure failure = error.failure();
      // What it was handed out has ended: a new claim_id takes the rest.
      if ("CLAIM_CLOSED".equals(failure.reason())) {
        return new Handout(List.of(), SHORTEST_PAUSE, false, null);
      }
      Outcome refused = Course.refused(failure, Outcome.later(null));
      Duration pause = refused.delay().isZero() ? Outcome.DEFAULT_DELAY : refused.delay();
      return new Handout(List.of(), pause.toNanos(), failure.unknown(), refused);
    }
    List<Item> items = new ArrayList<>();
    for (Handed handed : answer.message().getMessagesList()) {
      items.add(item(world, transport, request, handed, answer.sent()));
    }
    long named = Protos.nanos(answer.message().getRetryAfter());
    return new Handout(items, items.isEmpty() ? Math.max(named, SHORTEST_PAUSE) : 0, false, null);
  }

  private static Item item(
      World world, Transport transport, ClaimNextRequest request, Handed handed, long sent) {
    ClaimRequest.Builder claim =
        ClaimRequest.newBuilder()
            .setKey(handed.getKey())
            .setEventType(handed.getMessage().getEventType());
    if (request.hasLease()) {
      claim.setLease(request.getLease());
    }
    Hold hold = new Hold(world, transport, claim.build(), handed.getAcquired(), sent);
    Key key = Key.of(handed.getKey().getSource(), handed.getKey().getId());
    Instant storedAt =
        Instant.ofEpochSecond(handed.getStoredAt().getSeconds(), handed.getStoredAt().getNanos());
    return new Item(hold, new StoredMessage(key, InboxMessage.of(handed.getMessage()), storedAt));
  }

  /** Gives a message back that no handler has begun; the attempt does not count. */
  static Outcome release(Hold hold, long budget) {
    World world = hold.world();
    World brief =
        new World(
            world.clock(),
            world.random(),
            world.sleeper(),
            world.callTimeout(),
            world.claimBudget(),
            Math.min(budget, world.settleBudget()));
    Hold given = new Hold(brief, hold.transport(), hold.request(), hold.granted(), world.now());
    return Course.givenBack(given, "CLOSING");
  }
}
