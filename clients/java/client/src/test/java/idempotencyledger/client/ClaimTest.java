package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.proto.Advice;
import idempotencyledger.client.proto.CompleteResponse;
import idempotencyledger.client.proto.FailResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ClaimTest {
  private final FakeWorld fake = new FakeWorld();
  private final List<Outcome> ended = new ArrayList<>();

  private Claim claim(boolean interrupts, boolean scoped) {
    Claim.Settings settings = new Claim.Settings(Unexpected.PARK, interrupts, scoped);
    return new Claim(fake.hold(), null, settings, done -> ended.add(done.outcome()));
  }

  private void willComplete() {
    fake.answer(CompleteResponse.newBuilder().setAdvice(Advice.ADVICE_ACK).build());
  }

  private void willFail() {
    fake.answer(FailResponse.newBuilder().setAdvice(Advice.ADVICE_DEAD_LETTER).build());
  }

  @Test
  void loss_interrupts_the_handler_and_leaves_no_interrupt_behind() {
    Claim claim = claim(true, false);
    Outcome outcome =
        claim.run(
            held -> {
              claim.lost("LEASE_LOST");
              TimeUnit.SECONDS.sleep(30);
              return null;
            });
    assertEquals("LEASE_LOST", outcome.reason().orElseThrow());
    assertFalse(Thread.interrupted());
    assertEquals(1, ended.size());
  }

  @Test
  void loss_after_the_handler_interrupts_nothing() {
    Claim claim = claim(true, false);
    willComplete();
    claim.run(held -> null);
    claim.lost("LEASE_LOST");
    assertFalse(Thread.interrupted());
  }

  @Test
  void loss_without_interrupts_is_seen_by_a_check() {
    Claim claim = claim(false, false);
    Outcome outcome =
        claim.run(
            held -> {
              claim.lost("LEASE_LOST");
              assertFalse(Thread.currentThread().isInterrupted());
              held.check();
              return null;
            });
    assertEquals("LEASE_LOST", outcome.reason().orElseThrow());
    assertTrue(fake.sent.isEmpty());
  }

  @Test
  void what_a_handler_returns_after_the_loss_is_completed() {
    Claim claim = claim(true, false);
    willComplete();
    Outcome outcome =
        claim.run(
            held -> {
              claim.lost("LEASE_LOST");
              return new byte[] {1};
            });
    assertEquals(List.of("Complete"), fake.methods());
    assertEquals(idempotencyledger.client.Advice.ACK, outcome.advice());
    assertFalse(Thread.interrupted());
  }

  @Test
  void error_of_the_jvm_is_settled_and_thrown() {
    Claim claim = claim(true, false);
    willFail();
    assertThrows(
        StackOverflowError.class,
        () ->
            claim.run(
                held -> {
                  throw new StackOverflowError();
                }));
    assertEquals(List.of("Fail"), fake.methods());
    assertEquals(1, ended.size());
  }

  @Test
  void block_that_is_not_settled_is_parked() {
    willFail();
    Claim claim = claim(false, true);
    claim.close();
    claim.close();
    assertEquals("NOT_SETTLED", claim.outcome().reason().orElseThrow());
    assertEquals(1, ended.size());
    assertEquals(List.of("Fail"), fake.methods());
  }

  @Test
  void handler_cannot_close_its_claim() {
    Claim claim = claim(true, false);
    willComplete();
    claim.run(
        held -> {
          held.close();
          return null;
        });
    assertEquals(List.of("Complete"), fake.methods());
  }

  @Test
  void claim_that_is_not_settled_has_no_outcome() {
    assertThrows(NotGrantedException.class, claim(false, true)::outcome);
  }
}
