package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class ReportTest {
  private final Lines logged = new Lines();
  private final List<String> lines = logged.lines;

  @AfterEach
  void release() {
    logged.close();
  }

  @Test
  void one_line_a_second_of_each_kind() {
    Report report = new Report("c");
    Outcome refused = Outcome.later(null).withReason("OVERLOADED", "the queue is full");
    for (int at = 0; at < 5; at++) {
      report.outcome(refused);
    }
    report.outcome(Outcome.later(null).withReason("DRAINING", "another server"));
    assertEquals(2, lines.size());
    assertTrue(lines.get(0).startsWith("c: OVERLOADED: the queue is full"), lines.get(0));
  }

  @Test
  void texts_of_errors_are_not_logged() {
    Report report = new Report("c");
    report.outcome(Outcome.later(null).withError(new IllegalStateException("card 4111")));
    report.outcome(Outcome.later(null).withError(new Retry("steers")));
    assertEquals(1, lines.size());
    assertFalse(lines.get(0).contains("4111"), lines.get(0));
    assertTrue(lines.get(0).contains("java.lang.IllegalStateException"), lines.get(0));
  }

  @Test
  void fault_of_a_key_is_logged_once_with_its_bound() {
    Outcome outcome;
    try (Ledger ledger = Ledger.builder("c").endpoint("127.0.0.1:1").build()) {
      outcome = ledger.process(Key.of("shop", "i".repeat(513)), claim -> null);
    }
    String bound = "key.id: has 513 bytes of UTF-8; 1 to 512 are allowed";
    assertEquals(bound, outcome.detail());
    assertEquals(List.of("c: INVALID_FIELD: " + bound + ": DEAD_LETTER"), lines);
  }

  @Test
  void invalid_field_of_a_handler_is_logged_with_its_bound() {
    new Report("c")
        .outcome(Outcome.later(null).withError(new InvalidFieldException("connection", "bound")));
    assertTrue(lines.get(0).contains("was thrown (connection: bound): "), lines.get(0));
  }

  @Test
  void announcement_without_protection_is_logged_with_what_to_set() {
    new Report("c").outcome(Outcome.later(null).withError(new NotProtectedException("RECLAIM")));
    assertTrue(lines.get(0).contains("set on_expiry = PARK_IF_STARTED"), lines.get(0));
  }

  @Test
  void errors_of_the_guard_are_logged_with_their_texts() {
    Report report = new Report("c");
    report.outcome(Outcome.later(null).withError(new WrongRow("the guard row has no result")));
    report.outcome(Outcome.later(null).withError(new Undecided("X of the database", null)));
    report.outcome(Outcome.later(null).withError(new Doubtful("the application's")));
    assertEquals(2, lines.size());
    assertTrue(lines.get(0).contains("WrongRow was thrown (the guard row has no"), lines.get(0));
    assertTrue(lines.get(1).contains("Undecided was thrown (X of the database)"), lines.get(1));
  }
}
