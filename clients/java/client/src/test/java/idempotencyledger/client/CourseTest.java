package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Course.Begun;
import idempotencyledger.client.Ending.Done;
import idempotencyledger.client.Ending.Thrown;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.CompleteRequest;
import idempotencyledger.client.proto.CompleteResponse;
import idempotencyledger.client.proto.Completed;
import idempotencyledger.client.proto.FailRequest;
import idempotencyledger.client.proto.FailResponse;
import idempotencyledger.client.proto.OnExpiry;
import idempotencyledger.client.proto.ReleaseRequest;
import idempotencyledger.client.proto.ReleaseResponse;
import idempotencyledger.client.proto.RenewResponse;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class CourseTest {
  private static final idempotencyledger.client.proto.Advice ACK =
      idempotencyledger.client.proto.Advice.ADVICE_ACK;
  private static final idempotencyledger.client.proto.Advice LATER =
      idempotencyledger.client.proto.Advice.ADVICE_RETRY_LATER;

  private final FakeWorld fake = new FakeWorld();

  private Begun begin(boolean repeatAnnounced) {
    return Course.begin(fake.world(), fake, FakeWorld.request(), () -> false, repeatAnnounced);
  }

  private Outcome thrown(Throwable error) {
    return Course.finish(fake.hold(), new Thrown(error, false), Unexpected.PARK);
  }

  private Outcome done(String result) {
    return Course.finish(fake.hold(), Done.of(result.getBytes()), Unexpected.PARK);
  }

  @Test
  void grant_needs_both_verdict_and_advice() {
    fake.answer(FakeWorld.granted(FakeWorld.grant()));
    assertNotNull(begin(false).hold());
    fake.answer(FakeWorld.granted(FakeWorld.grant()).toBuilder().setAdvice(ACK).build());
    Outcome other = begin(false).outcome();
    assertEquals(Advice.RETRY_LATER, other.advice());
    assertEquals(Duration.ofSeconds(1), other.delay());
  }

  @Test
  void announced_effect_is_parked_unless_the_application_has_asked_for_it() {
    fake.answer(FakeWorld.granted(FakeWorld.grant().setPriorEffectStarted(true)));
    fake.answer(
        FailResponse.newBuilder()
            .setAdvice(idempotencyledger.client.proto.Advice.ADVICE_DEAD_LETTER)
            .build());
    Outcome parked = begin(false).outcome();
    assertEquals(Advice.DEAD_LETTER, parked.advice());
    assertEquals("PRIOR_EFFECT_STARTED", parked.reason().orElseThrow());
    assertTrue(parked.effectUnknown() && parked.error().isEmpty());
    fake.answer(FakeWorld.granted(FakeWorld.grant().setPriorEffectStarted(true)));
    assertNotNull(begin(true).hold());
  }

  @Test
  void lease_that_is_over_is_renewed_or_given_back() {
    fake.answerAfter(31, FakeWorld.granted(FakeWorld.grant()));
    fake.answer(RenewResponse.newBuilder().setLease(FakeWorld.proto(30)).build());
    assertNotNull(begin(false).hold());
    fake.answerAfter(31, FakeWorld.granted(FakeWorld.grant()));
    fake.answer(FakeWorld.refusal("LEASE_LOST"));
    fake.answer(ReleaseResponse.newBuilder().setAdvice(LATER).build());
    assertEquals("LEASE_OVER", begin(false).outcome().reason().orElseThrow());
  }

  @Test
  void nothing_is_claimed_for_a_caller_that_is_gone() {
    Begun begun = Course.begin(fake.world(), fake, FakeWorld.request(), () -> true, false);
    assertEquals("CLOSING", begun.outcome().reason().orElseThrow());
    assertTrue(fake.sent.isEmpty());
  }

  @Test
  void completed_is_replayed_with_its_result() {
    Completed completed =
        Completed.newBuilder()
            .setResult(com.google.protobuf.ByteString.copyFromUtf8("paid"))
            .setAttempt(3)
            .build();
    fake.answer(ClaimResponse.newBuilder().setAdvice(ACK).setCompleted(completed).build());
    Outcome again = begin(false).outcome();
    assertTrue(again.replayed() && again.reason().isEmpty());
    assertArrayEquals("paid".getBytes(), again.result().orElseThrow());
    assertEquals(3, again.attempt());
    assertEquals(Duration.ZERO, again.delay());
  }

  @Test
  void result_that_is_not_stored_is_not_the_answer() {
    List<Completed> missing =
        List.of(
            Completed.newBuilder().setResultDropped(true).build(),
            Completed.newBuilder().setResultExpired(true).build(),
            Completed.newBuilder().setResultOmitted(true).build());
    for (Completed each : missing) {
      fake.answer(ClaimResponse.newBuilder().setAdvice(ACK).setCompleted(each).build());
      Outcome again = begin(false).outcome();
      assertTrue(again.result().isEmpty(), each.toString());
      assertEquals(each.getResultDropped(), again.resultDropped());
    }
  }

  @Test
  void too_large_a_complete_is_repeated_without_its_result() {
    fake.answer(FakeWorld.refusal("TOO_LARGE"));
    fake.answer(CompleteResponse.newBuilder().setAdvice(ACK).setResultDropped(true).build());
    Outcome outcome = done("large");
    assertEquals(Advice.ACK, outcome.advice());
    assertTrue(outcome.resultDropped());
    CompleteRequest second = (CompleteRequest) fake.sent.get(1).request();
    assertTrue(second.getResultLeftOut() && second.getResult().isEmpty());
  }

  @Test
  void too_large_a_complete_without_a_result_is_refused() {
    fake.answer(FakeWorld.refusal("TOO_LARGE"));
    assertEquals("TOO_LARGE", done("").reason().orElseThrow());
    assertEquals(1, fake.sent.size());
  }

  @Test
  void nothing_follows_a_complete() {
    Hold hold = fake.hold();
    fake.answer(FakeWorld.refusal("INTERNAL"));
    Outcome first = Course.finish(hold, Done.of(null), Unexpected.PARK);
    assertEquals("INTERNAL", first.reason().orElseThrow());
    IllegalStateException error = new IllegalStateException();
    Outcome second = Course.finish(hold, new Thrown(error, false), Unexpected.PARK);
    assertEquals("INTERNAL", second.reason().orElseThrow());
    assertEquals(error, second.error().orElseThrow());
    assertEquals(List.of("Complete"), fake.methods());
  }

  @Test
  void steering_errors_are_settled_by_their_kind() {
    Map<Steer, String> kinds =
        Map.of(
            new Retry(), "FAILURE_KIND_RETRYABLE",
            new Terminal(), "FAILURE_KIND_TERMINAL",
            new Park(), "FAILURE_KIND_PARK",
            new AnnouncementFailedException("x"), "FAILURE_KIND_RETRYABLE");
    kinds.forEach(
        (steer, kind) -> {
          fake.answer(FailResponse.newBuilder().setAdvice(LATER).build());
          thrown(steer);
          FailRequest request = (FailRequest) fake.sent.get(fake.sent.size() - 1).request();
          assertEquals(kind, request.getKind().name());
        });
  }

  @Test
  void unexpected_error_is_parked_by_the_name_of_its_type() {
    fake.answer(FailResponse.newBuilder().setAdvice(LATER).build());
    thrown(new IllegalStateException("card 4111"));
    FailRequest request = (FailRequest) fake.sent.get(0).request();
    assertEquals("IllegalStateException", request.getError());
    assertEquals("FAILURE_KIND_PARK", request.getKind().name());
  }

  @Test
  void long_reasons_are_cut() {
    fake.answer(FailResponse.newBuilder().setAdvice(LATER).build());
    thrown(new Park("x".repeat(5000)));
    assertEquals(2000, ((FailRequest) fake.sent.get(0).request()).getError().length());
  }

  @Test
  void doubt_settles_nothing() {
    Outcome doubtful = thrown(new Doubtful());
    assertEquals("DOUBTFUL", doubtful.reason().orElseThrow());
    assertTrue(doubtful.effectUnknown());
    Hold lost = fake.hold();
    lost.lost("LEASE_LOST");
    Thrown any = new Thrown(new IllegalStateException(), false);
    Outcome outcome = Course.finish(lost, any, Unexpected.PARK);
    assertEquals("LEASE_LOST", outcome.reason().orElseThrow());
    Thrown cut = new Thrown(new InterruptedException(), true);
    Outcome interrupted = Course.finish(fake.hold(), cut, Unexpected.PARK);
    assertEquals("INTERRUPTED", interrupted.reason().orElseThrow());
    assertTrue(fake.sent.isEmpty());
  }

  @Test
  void claim_that_is_not_protected_is_given_back_for_five_seconds() {
    fake.answer(ReleaseResponse.newBuilder().setAdvice(LATER).build());
    Hold hold =
        new Hold(
            fake.world(),
            fake,
            FakeWorld.request(),
            FakeWorld.grant().setOnExpiry(OnExpiry.ON_EXPIRY_RECLAIM).build(),
            0);
    NotProtectedException error = assertThrows(NotProtectedException.class, hold::announce);
    Outcome outcome = Course.finish(hold, new Thrown(error, false), Unexpected.PARK);
    assertEquals("NOT_PROTECTED", outcome.reason().orElseThrow());
    assertEquals(Duration.ofSeconds(5), outcome.delay());
    assertEquals(5, ((ReleaseRequest) fake.sent.get(0).request()).getDelay().getSeconds());
  }

  @Test
  void announcement_without_an_answer_is_repeated_until_the_lease_ends() {
    Hold hold = fake.hold();
    for (int at = 0; at < 100; at++) {
      fake.answer(FakeWorld.noAnswer());
    }
    assertThrows(AnnouncementFailedException.class, hold::announce);
    assertTrue(hold.announced());
    assertTrue(fake.now() <= FakeWorld.seconds(30) && fake.now() > FakeWorld.seconds(28));
  }

  @Test
  void advice_of_an_error_counts() {
    fake.answer(new Failure("INVALID_ARGUMENT", "INVALID_FIELD", "DEAD_LETTER", -1, "key"));
    Outcome outcome = begin(false).outcome();
    assertEquals(Advice.DEAD_LETTER, outcome.advice());
    assertEquals("key", outcome.detail());
    fake.answer(new Failure("INVALID_ARGUMENT", "NEWER", "NEWER_ADVICE", -1, ""));
    assertEquals(Advice.RETRY_LATER, begin(false).outcome().advice());
    assertNull(begin0().hold());
  }

  private Begun begin0() {
    fake.answer(ClaimResponse.getDefaultInstance());
    return begin(false);
  }
}
