package idempotencyledger.client;

import static idempotencyledger.client.SpoolScript.AWAY;
import static idempotencyledger.client.SpoolScript.DELIVERY;
import static idempotencyledger.client.SpoolScript.NEVER;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.InProgress;
import idempotencyledger.client.proto.Parked;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class SpoolTest {
  private static Failure refusal(String code, String reason) {
    return new Failure(code, reason, null, -1, "");
  }

  private static boolean away(Object answer) {
    FakeWorld fake = new FakeWorld();
    // More than the repeats of one Claim.
    Stream.generate(() -> answer).limit(100).forEach(fake::answer);
    return Course.begin(fake.world(), fake, FakeWorld.request(), () -> false, false)
        .outcome()
        .away();
  }

  @Test
  void only_a_claim_that_was_not_answered_is_away() {
    assertTrue(away(refusal("UNAVAILABLE", null)));
    assertTrue(away(refusal("DEADLINE_EXCEEDED", null)));
    assertTrue(away(refusal("UNAVAILABLE", "STORE_UNAVAILABLE")));
    assertTrue(away(refusal("DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED")));
    ClaimResponse.Builder busy =
        ClaimResponse.newBuilder()
            .setAdvice(idempotencyledger.client.proto.Advice.ADVICE_RETRY_LATER)
            .setInProgress(InProgress.getDefaultInstance());
    ClaimResponse.Builder parked =
        ClaimResponse.newBuilder()
            .setAdvice(idempotencyledger.client.proto.Advice.ADVICE_DEAD_LETTER)
            .setParked(Parked.getDefaultInstance());
    for (Object answer :
        List.of(
            refusal("INTERNAL", null),
            refusal("UNKNOWN", null),
            refusal("CANCELLED", null),
            refusal("FAILED_PRECONDITION", "CONSUMER_DISABLED"),
            refusal("PERMISSION_DENIED", "CONSUMER_NOT_ALLOWED"),
            refusal("RESOURCE_EXHAUSTED", "OVERLOADED"),
            busy.build(),
            parked.build())) {
      assertTrue(!away(answer), answer.toString());
    }
  }

  private record Step(int fails, String steps, Advice advice, boolean unknown) {}

  @Test
  void beginning_is_synced_before_the_effect() {
    for (Step step :
        List.of(
            new Step(0, "begin sync effect end sync", Advice.ACK, false),
            new Step(1, "begin", Advice.RETRY_LATER, false),
            new Step(2, "begin sync", Advice.RETRY_LATER, false),
            new Step(4, "begin sync effect end", Advice.RETRY_LATER, true),
            new Step(5, "begin sync effect end sync", Advice.RETRY_LATER, true))) {
      SpoolScript file = new SpoolScript();
      file.fails = step.fails;
      Spool spool = file.spool();
      Outcome found =
          spool.process(
              AWAY,
              "payments",
              DELIVERY,
              () -> {
                file.steps.add("effect");
                return "paid".getBytes();
              });
      assertEquals(step.steps, String.join(" ", file.steps));
      assertEquals(step.advice, found.advice());
      assertEquals(step.unknown, found.effectUnknown());
      assertTrue(found.away());
      // Where the effect has happened its result is known, whatever the disk says.
      assertEquals(step.steps.contains("effect"), found.result().isPresent());
      if (step.fails == 0) {
        continue;
      }
      assertEquals("SPOOL_FAILED", found.reason().orElseThrow());
      assertEquals(Duration.ofSeconds(1), found.delay());
      assertInstanceOf(SpoolFailedException.class, found.error().orElseThrow());
      assertTrue(found.detail().contains("no space left on device"), found.detail());
      // What the system has lost of the file is not known: it is not written any more, though it
      // could be.
      file.fails = 0;
      Outcome again = spool.process(AWAY, "payments", DELIVERY, NEVER);
      assertEquals("SPOOL_FAILED", again.reason().orElseThrow());
      assertEquals(step.steps, String.join(" ", file.steps));
    }
  }

  @Test
  void an_answer_of_the_ledger_opens_nothing() {
    SpoolScript file = new SpoolScript();
    Spool spool = file.spool();
    for (Outcome found :
        List.of(
            Outcome.later(null).withAdvice(Advice.ACK, Duration.ZERO).withReplayed(1),
            Outcome.later("in_progress"),
            Outcome.later("parked").withAdvice(Advice.DEAD_LETTER, Duration.ZERO),
            Outcome.later("NO_ANSWER (INTERNAL)"))) {
      assertSame(found, spool.process(found, "payments", DELIVERY, NEVER));
    }
    Delivery replayed = Delivery.of(Key.of("shop", "1").inReplayRun("run"));
    assertSame(AWAY, spool.process(AWAY, "payments", replayed, NEVER));
    assertSame(AWAY, spool.process(AWAY, "payments", Delivery.of(Key.of("shop", "")), NEVER));
    Thread.currentThread().interrupt();
    assertSame(AWAY, spool.process(AWAY, "payments", DELIVERY, NEVER));
    assertTrue(Thread.interrupted());
    assertEquals(List.of(), file.steps);
  }

  private record Ended(
      Exception error, String events, Advice advice, long millis, boolean unknown) {}

  @Test
  void an_error_says_whether_the_effect_happened() {
    for (Ended ended :
        List.of(
            new Ended(
                new Retry("later", Duration.ofSeconds(7)),
                "begin none",
                Advice.RETRY_LATER,
                7000,
                false),
            new Ended(new Retry(Duration.ofMillis(1)), "begin none", Advice.RETRY_LATER, 50, false),
            new Ended(new Terminal("never"), "begin none", Advice.RETRY_LATER, 1000, false),
            new Ended(new GiveBack(), "begin none", Advice.RETRY_LATER, 1000, false),
            new Ended(new Doubtful(), "begin", Advice.RETRY_LATER, 1000, true),
            new Ended(new Park("look"), "begin", Advice.DEAD_LETTER, 0, true),
            new Ended(new InterruptedException(), "begin", Advice.DEAD_LETTER, 0, true),
            new Ended(new IllegalStateException("secret"), "begin", Advice.DEAD_LETTER, 0, true))) {
      SpoolScript file = new SpoolScript();
      Outcome found =
          file.spool()
              .process(
                  AWAY,
                  "payments",
                  DELIVERY,
                  () -> {
                    throw ended.error;
                  });
      assertEquals(ended.events, String.join(" ", file.events()));
      assertEquals(ended.advice, found.advice());
      assertEquals(Duration.ofMillis(ended.millis), found.delay());
      assertEquals(ended.unknown, found.effectUnknown());
      assertSame(ended.error, found.error().orElseThrow());
      assertTrue(found.away() && !found.reason().orElseThrow().contains("secret"));
      assertEquals(ended.error instanceof InterruptedException, Thread.interrupted());
    }
  }

  @Test
  void an_error_of_the_machine_is_thrown_and_leaves_the_beginning_alone() {
    SpoolScript file = new SpoolScript();
    assertThrows(
        AssertionError.class, () -> file.spool().process(AWAY, "payments", DELIVERY, NEVER));
    assertEquals(List.of("begin"), file.events());
  }

  @Test
  void a_none_that_cannot_be_written_changes_no_advice() {
    SpoolScript file = new SpoolScript();
    file.fails = 3;
    Outcome found =
        file.spool()
            .process(
                AWAY,
                "payments",
                DELIVERY,
                () -> {
                  throw new Retry();
                });
    assertEquals(Advice.RETRY_LATER, found.advice());
    assertTrue(!found.effectUnknown());
  }

  @Test
  void a_result_beyond_the_bound_is_left_out() {
    for (int size : List.of(0, 16_384, 16_385)) {
      SpoolScript file = new SpoolScript();
      Outcome found = file.spool().process(AWAY, "payments", DELIVERY, () -> new byte[size]);
      assertEquals(Advice.ACK, found.advice());
      assertEquals(size > 16_384, found.resultDropped());
      assertArrayEquals(new byte[size], found.result().orElseThrow());
      assertEquals(size == 16_384, file.lines.get(1).containsKey("result_base64"));
    }
  }

  @Test
  void a_key_with_quotes_is_escaped() {
    SpoolScript file = new SpoolScript();
    Key key = Key.of("a\"b", "c\\d\\\"é\u2028");
    file.spool().process(AWAY, "payments", Delivery.of(key), () -> null);
    Map<String, String> line = file.lines.get(0);
    assertEquals(key, Key.of(line.get("source"), line.get("id")));
  }

  @Test
  void lines_have_separate_instants_while_the_clock_stands_still() {
    SpoolScript file = new SpoolScript();
    Instant now = Instant.parse("2026-05-28T20:00:00Z");
    Spool spool = new Spool(file, Clock.fixed(now, ZoneOffset.UTC));
    for (int i = 0; i < 100; i++) {
      spool.process(AWAY, "payments", DELIVERY, () -> null);
    }
    List<String> instants = file.lines.stream().map(line -> line.get("at")).toList();
    assertEquals("2026-05-28T20:00:00.000000Z", instants.get(0));
    assertEquals(List.copyOf(new TreeSet<>(instants)), instants);
    assertEquals(100, file.lines.stream().map(line -> line.get("row")).distinct().count());
  }

  @Test
  void a_mistake_of_the_program_is_refused() {
    SpoolScript file = new SpoolScript();
    Spool spool = file.spool();
    for (String consumer : List.of("", "c".repeat(129))) {
      InvalidFieldException error =
          assertThrows(
              InvalidFieldException.class, () -> spool.process(AWAY, consumer, DELIVERY, NEVER));
      assertEquals("consumer", error.field());
    }
    assertThrows(
        InvalidFieldException.class, () -> spool.process(AWAY, "payments", DELIVERY, null));
    assertEquals(List.of(), file.steps);
  }
}
