package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.proto.RenewResponse;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class RenewalTest {
  private final FakeWorld fake = new FakeWorld();
  private final List<String> lost = new ArrayList<>();
  private final Hold hold = fake.hold();
  private final Renewal renewal = new Renewal(hold, fake, this::lose);

  private void lose(String reason) {
    hold.lost(reason);
    lost.add(reason);
  }

  private static RenewResponse renewed(double lease) {
    return RenewResponse.newBuilder().setLease(FakeWorld.proto(lease)).build();
  }

  @Test
  void lease_is_renewed_at_a_third_of_what_remains() {
    fake.answer(renewed(30)).answer(renewed(15)).answer(renewed(30));
    renewal.start();
    fake.pass(26);
    List<Long> times = fake.sent.stream().map(FakeWorld.Sent::at).toList();
    assertEquals(
        List.of(FakeWorld.seconds(10), FakeWorld.seconds(20), FakeWorld.seconds(25)), times);
    assertTrue(lost.isEmpty());
  }

  @Test
  void nothing_is_renewed_after_the_settlement() {
    renewal.start();
    hold.settled(Outcome.later(null));
    fake.pass(60);
    assertTrue(fake.sent.isEmpty());
    assertTrue(lost.isEmpty());
  }

  @Test
  void nothing_is_renewed_after_the_stop() {
    renewal.start();
    renewal.stop();
    fake.pass(60);
    assertTrue(fake.sent.isEmpty());
  }

  @Test
  void claim_is_lost_where_the_ledger_has_closed_it() {
    for (String reason :
        List.of("LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE")) {
      FakeWorld other = new FakeWorld();
      List<String> reasons = new ArrayList<>();
      other.answer(FakeWorld.refusal(reason));
      new Renewal(other.hold(), other, reasons::add).start();
      other.pass(100);
      assertEquals(List.of(reason), reasons);
    }
  }

  @Test
  void claim_closed_by_its_own_complete_is_not_lost() {
    fake.answer(FakeWorld.refusal("CLAIM_CLOSED"));
    hold.setCompleting();
    renewal.start();
    fake.pass(100);
    assertTrue(lost.isEmpty());
    assertEquals(1, fake.sent.size());
  }

  @Test
  void other_errors_leave_the_lease_until_its_end() {
    for (int at = 0; at < 100; at++) {
      fake.answer(FakeWorld.refusal("CONSUMER_NOT_ALLOWED"));
    }
    renewal.start();
    fake.pass(29.9);
    assertTrue(lost.isEmpty());
    assertTrue(fake.sent.size() > 3 && fake.sent.size() < 30, "tried " + fake.sent.size());
    fake.pass(1);
    assertEquals(List.of("LEASE_OVER"), lost);
  }

  @Test
  void process_that_stood_still_asks_once_within_a_second() {
    fake.answer(FakeWorld.noAnswer()).answer(renewed(30));
    renewal.start();
    fake.standStill(100);
    fake.pass(0.2);
    assertEquals(2, fake.sent.size());
    assertEquals(1, fake.sent.get(0).timeout().toSeconds());
    assertTrue(lost.isEmpty());
    assertTrue(hold.over() == null);
  }

  @Test
  void process_that_stood_still_learns_that_its_claim_is_lost() {
    fake.answer(FakeWorld.refusal("LEASE_LOST"));
    renewal.start();
    fake.standStill(100);
    fake.pass(0);
    assertEquals(List.of("LEASE_LOST"), lost);
  }

  @Test
  void last_part_of_the_hold_is_not_renewed() {
    fake.answer(
        RenewResponse.newBuilder()
            .setLease(FakeWorld.proto(20))
            .setHold(FakeWorld.proto(20))
            .build());
    renewal.start();
    fake.pass(29.9);
    assertEquals(1, fake.sent.size());
    assertTrue(lost.isEmpty());
    fake.pass(0.2);
    assertEquals(List.of("LEASE_OVER"), lost);
    assertEquals(1, fake.sent.size());
  }
}
