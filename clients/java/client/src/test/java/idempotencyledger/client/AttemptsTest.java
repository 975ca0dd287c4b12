package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import java.time.Duration;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class AttemptsTest {
  private final FakeWorld fake = new FakeWorld();

  private ClaimResponse claim(double budget) throws CallFailed {
    ClaimRequest request = FakeWorld.request();
    return fake.repeated(
            fake.world(),
            LedgerServiceGrpc.getClaimMethod(),
            request,
            FakeWorld.seconds(budget),
            FakeWorld.seconds(5))
        .message();
  }

  @Test
  void unknown_outcome_is_repeated_with_the_identical_request_and_doubled_pauses()
      throws Exception {
    IntStream.range(0, 7).forEach(at -> fake.answer(FakeWorld.noAnswer()));
    fake.answer(ClaimResponse.getDefaultInstance());
    claim(10);
    assertEquals(1, fake.sent.stream().map(FakeWorld.Sent::request).distinct().count());
    assertFalse(fake.sent.get(0).repeat());
    assertTrue(fake.sent.stream().skip(1).allMatch(FakeWorld.Sent::repeat));
    assertEquals(FakeWorld.seconds(0.05 + 0.1 + 0.2 + 0.4 + 0.8 + 1 + 1), fake.now());
    assertEquals(7, fake.reconnects);
  }

  @Test
  void budget_that_is_used_up_ends_the_repeats() {
    IntStream.range(0, 100).forEach(at -> fake.answer(FakeWorld.noAnswer()));
    CallFailed error = assertThrows(CallFailed.class, () -> claim(10));
    assertEquals("NO_ANSWER (UNAVAILABLE)", error.failure().name());
    assertTrue(fake.now() <= FakeWorld.seconds(10), "it took " + fake.now());
  }

  @Test
  void last_try_has_what_is_left_of_the_budget() throws Exception {
    fake.answerAfter(3, FakeWorld.noAnswer()).answer(ClaimResponse.getDefaultInstance());
    claim(4);
    assertEquals(Duration.ofMillis(4000), fake.sent.get(0).timeout());
    assertEquals(Duration.ofMillis(950), fake.sent.get(1).timeout());
  }

  @Test
  void refusal_without_a_time_is_not_repeated() {
    fake.answer(FakeWorld.refusal("CONSUMER_NOT_ALLOWED"));
    assertThrows(CallFailed.class, () -> claim(10));
    assertEquals(1, fake.sent.size());
  }

  @Test
  void refusal_with_a_time_is_repeated_after_it() throws Exception {
    fake.answer(new Failure("RESOURCE_EXHAUSTED", "OVERLOADED", null, FakeWorld.seconds(2), ""));
    fake.answer(ClaimResponse.getDefaultInstance());
    claim(10);
    assertEquals(FakeWorld.seconds(2), fake.sent.get(1).at());
  }

  @Test
  void refusal_with_a_time_beyond_the_budget_is_handed_on() {
    fake.answer(new Failure("RESOURCE_EXHAUSTED", "OVERLOADED", null, FakeWorld.seconds(60), ""));
    assertThrows(CallFailed.class, () -> claim(10));
    assertEquals(0, fake.now());
  }

  @Test
  void outcome_unknown_of_the_ledger_is_repeated() throws Exception {
    for (String reason : new String[] {"OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED"}) {
      fake.answer(FakeWorld.refusal(reason));
    }
    fake.answer(ClaimResponse.getDefaultInstance());
    claim(10);
    assertEquals(4, fake.sent.size());
  }
}
