package idempotencyledger.client;

import idempotencyledger.client.proto.Acquired;
import idempotencyledger.client.proto.Advice;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.EntryKey;
import idempotencyledger.client.proto.OnExpiry;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/**
 * A clock that is turned by hand, a scripted ledger, and a timer whose tasks run when their time
 * has come.
 */
final class FakeWorld implements Transport, Timer {
  /** What was sent: the bare name of the method, the request, and the deadline of the try. */
  record Sent(String method, Object request, Duration timeout, boolean repeat, long at) {}

  private record Planned(long at, int number, Runnable step) {}

  final List<Sent> sent = new ArrayList<>();
  private final Deque<Supplier<Object>> answers = new ArrayDeque<>();
  private final PriorityQueue<Planned> planned =
      new PriorityQueue<>(Comparator.comparingLong(Planned::at).thenComparingInt(Planned::number));
  private long now;
  private int number;
  int reconnects;

  World world() {
    return new World(
        () -> now, () -> 1.0, nanos -> now += nanos, seconds(5), seconds(10), seconds(20));
  }

  static long seconds(double seconds) {
    return (long) (seconds * 1e9);
  }

  static com.google.protobuf.Duration proto(double seconds) {
    return Protos.duration(Duration.ofNanos(seconds(seconds)));
  }

  /** The answer of the next call: a message, or a Failure. */
  FakeWorld answer(Object answer) {
    answers.add(() -> answer);
    return this;
  }

  /** The answer of the next call, which takes this time. */
  FakeWorld answerAfter(double seconds, Object answer) {
    answers.add(
        () -> {
          now += seconds(seconds);
          return answer;
        });
    return this;
  }

  static Failure refusal(String reason) {
    return new Failure("ABORTED", reason, "RETRY_LATER", -1, "");
  }

  static Failure noAnswer() {
    return new Failure("UNAVAILABLE", null, null, -1, "");
  }

  @Override
  @SuppressWarnings("unchecked")
  public <Q, R> CompletableFuture<R> start(
      MethodDescriptor<Q, R> method, Q request, long timeout, boolean repeat) {
    sent.add(new Sent(method.getBareMethodName(), request, Duration.ofNanos(timeout), repeat, now));
    if (answers.isEmpty()) {
      throw new AssertionError("no answer is left for " + method.getBareMethodName());
    }
    Object answer = answers.remove().get();
    return answer instanceof Failure failure
        ? CompletableFuture.failedFuture(new CallFailed(failure))
        : CompletableFuture.completedFuture((R) answer);
  }

  @Override
  public void reconnect() {
    reconnects++;
  }

  @Override
  public Task after(long nanos, Runnable step) {
    Planned made = new Planned(now + nanos, number++, step);
    planned.add(made);
    return () -> planned.remove(made);
  }

  /** Turns the clock, and runs what is due meanwhile. */
  void pass(double seconds) {
    long until = now + seconds(seconds);
    while (!planned.isEmpty() && planned.peek().at() <= until) {
      Planned next = planned.remove();
      now = Math.max(now, next.at());
      next.step().run();
    }
    now = Math.max(now, until);
  }

  /** The process stands still: the clock goes on, and nothing runs. */
  void standStill(double seconds) {
    now += seconds(seconds);
  }

  long now() {
    return now;
  }

  List<String> methods() {
    return sent.stream().map(Sent::method).toList();
  }

  static ClaimRequest request() {
    return ClaimRequest.newBuilder()
        .setKey(EntryKey.newBuilder().setConsumer("c").setSource("s").setId("i"))
        .setClaimId("0")
        .build();
  }

  static Acquired.Builder grant() {
    return Acquired.newBuilder()
        .setToken(7)
        .setAttempt(1)
        .setLease(proto(30))
        .setHold(proto(3600))
        .setOnExpiry(OnExpiry.ON_EXPIRY_PARK_IF_STARTED);
  }

  static ClaimResponse granted(Acquired.Builder grant) {
    return ClaimResponse.newBuilder().setAdvice(Advice.ADVICE_PROCESS).setAcquired(grant).build();
  }

  /** A hold of 30 seconds that was granted now. */
  Hold hold() {
    return new Hold(world(), this, request(), grant().build(), now);
  }
}
