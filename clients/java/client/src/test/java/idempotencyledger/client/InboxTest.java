package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Claim.Settings;
import idempotencyledger.client.Inbox.Handout;
import idempotencyledger.client.WorkQueue.Item;
import idempotencyledger.client.proto.AlreadyStored;
import idempotencyledger.client.proto.ClaimNextRequest;
import idempotencyledger.client.proto.ClaimNextResponse;
import idempotencyledger.client.proto.Handed;
import idempotencyledger.client.proto.ReleaseResponse;
import idempotencyledger.client.proto.RenewResponse;
import idempotencyledger.client.proto.StoreRequest;
import idempotencyledger.client.proto.StoreResponse;
import idempotencyledger.client.proto.Stored;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;

class InboxTest {
  private static final idempotencyledger.client.proto.Advice ACK =
      idempotencyledger.client.proto.Advice.ADVICE_ACK;
  private static final long LEASE = TimeUnit.SECONDS.toNanos(30);

  private final FakeWorld fake = new FakeWorld();

  private Outcome stored(Object answer) {
    fake.answer(answer);
    return Inbox.store(fake.world(), fake, StoreRequest.getDefaultInstance());
  }

  @Test
  void message_beyond_a_bound_is_at_fault() {
    String large = "x".repeat(257);
    InboxMessage right = InboxMessage.of(new byte[1]);
    Map<String, InboxMessage> beyond =
        Map.of(
            "message.payload", InboxMessage.of(new byte[256 * 1024 + 1]),
            "message.topic", right.withTopic(large),
            "message.message_key", right.withMessageKey(new byte[513]),
            "message.event_version", right.withEventVersion(large),
            "message.content_type", right.withContentType(large),
            "message.headers.name", right.withHeader("", null),
            "message.headers", right.withHeader("h", new byte[16 * 1024]));
    beyond.forEach((field, message) -> assertEquals(field, message.fault().orElseThrow().field()));
    assertTrue(right.withHeader("h", new byte[] {1}).withPlace(2, 9).fault().isEmpty());
    assertThrows(InvalidFieldException.class, () -> InboxMessage.of((byte[]) null));
  }

  @Test
  void verdict_of_store_becomes_an_outcome() {
    StoreResponse.Builder kept = StoreResponse.newBuilder().setAdvice(ACK);
    Outcome fresh = stored(kept.setStored(Stored.getDefaultInstance()).build());
    assertEquals(Advice.ACK, fresh.advice());
    assertTrue(fresh.reason().isEmpty() && !fresh.replayed());
    Outcome again = stored(kept.setAlreadyStored(AlreadyStored.getDefaultInstance()).build());
    assertTrue(again.replayed() && again.advice() == Advice.ACK);
    assertEquals("already_stored", again.reason().orElseThrow());
    // Rule 8: what this version does not know.
    Outcome odd = stored(StoreResponse.newBuilder().setAdvice(ACK).build());
    assertEquals(Advice.RETRY_LATER, odd.advice());
    assertEquals("UNKNOWN_VERDICT", odd.reason().orElseThrow());
    Outcome off = stored(FakeWorld.refusal("INBOX_OFF"));
    assertEquals(Advice.RETRY_LATER, off.advice());
    assertEquals("INBOX_OFF", off.reason().orElseThrow());
  }

  @Test
  void handout_after_a_wait_beyond_its_lease_is_renewed_by_its_handler() {
    Handed.Builder handed = Handed.newBuilder().setAcquired(FakeWorld.grant());
    handed.getKeyBuilder().setConsumer("c").setSource("s").setId("1");
    fake.answerAfter(31, ClaimNextResponse.newBuilder().addMessages(handed).build());
    Handout handout = Inbox.take(fake.world(), fake, ClaimNextRequest.getDefaultInstance());
    // No message waits for the Renew of another one before its handler may begin.
    assertEquals(List.of("ClaimNext"), fake.methods());
    Hold hold = handout.items().get(0).hold();
    assertNull(hold.lost());
    assertEquals(Hold.LEASE_OVER, hold.over());
    fake.answer(RenewResponse.newBuilder().setLease(FakeWorld.proto(30)).build());
    assertEquals(hold, Course.admitted(hold, () -> false, false).hold());
    assertEquals(List.of("ClaimNext", "Renew"), fake.methods());
    fake.answer(FakeWorld.refusal("CLAIM_CLOSED"));
    assertFalse(Inbox.take(fake.world(), fake, ClaimNextRequest.getDefaultInstance()).again());
  }

  private static ClaimNextResponse handout(String... ids) {
    ClaimNextResponse.Builder handout = ClaimNextResponse.newBuilder();
    for (String id : ids) {
      Handed.Builder handed = handout.addMessagesBuilder().setAcquired(FakeWorld.grant());
      handed.getKeyBuilder().setConsumer("c").setSource("s").setId(id);
    }
    return handout.build();
  }

  private Ledger ledger() {
    return new Ledger(Ledger.builder("c"), fake.world(), telemetry -> fake);
  }

  @Test
  void stop_during_a_claim_next_releases_its_messages() {
    fake.answer(handout("1")).answer(ReleaseResponse.getDefaultInstance());
    List<String> begun = new CopyOnWriteArrayList<>();
    BooleanSupplier stop =
        () -> {
          boolean requested = !fake.sent.isEmpty();
          // Time for a handler to begin, where the message is at hand by now.
          Waiting.sleep(requested ? TimeUnit.MILLISECONDS.toNanos(100) : 0);
          return requested;
        };
    Worker worker = ledger().worker((claim, message) -> handled(begun, message));
    assertTrue(worker.run(stop));
    assertEquals(List.of(), begun);
    assertEquals(List.of("ClaimNext", "Release"), fake.methods());
  }

  @Test
  void stop_while_a_message_waits_releases_it() {
    fake.answer(handout("1", "2")).answer(ReleaseResponse.getDefaultInstance());
    List<String> begun = new CopyOnWriteArrayList<>();
    Worker worker = ledger().worker((claim, message) -> handled(begun, message));
    assertTrue(worker.run(() -> !begun.isEmpty()));
    assertEquals(List.of("1"), begun);
    assertEquals(List.of("ClaimNext", "Release"), fake.methods());
  }

  @Test
  void second_run_of_a_worker_is_refused() {
    Worker worker = ledger().worker((claim, message) -> null);
    assertTrue(worker.run(() -> true));
    assertThrows(IllegalStateException.class, () -> worker.run(() -> true));
  }

  @Test
  void failed_release_at_the_end_leaves_nothing_behind() {
    fake.answer(handout("1", "2", "3")); // No answer is left for a Release, which is an error.
    List<String> begun = new CopyOnWriteArrayList<>();
    Ledger ledger = ledger();
    Worker worker =
        ledger.worker(
            (claim, message) -> {
              begun.add(message.key().id());
              Waiting.sleep(TimeUnit.MILLISECONDS.toNanos(200));
              throw new Doubtful("test");
            });
    assertThrows(AssertionError.class, () -> worker.run(() -> !begun.isEmpty()));
    assertEquals(List.of("ClaimNext", "Release", "Release"), fake.methods());
    assertTrue(ledger.close(Duration.ofSeconds(1)));
    assertThrows(NullPointerException.class, () -> worker.grace(null));
  }

  /** A handler after which nothing is settled. */
  private static byte[] handled(List<String> begun, StoredMessage message) {
    begun.add(message.key().id());
    throw new Doubtful("test");
  }

  private List<Item> items(int attempt, String... ids) {
    List<Item> found = new ArrayList<>();
    for (String id : ids) {
      var granted = FakeWorld.grant().setAttempt(attempt).setEffectUnknown(attempt > 1).build();
      Hold hold = new Hold(fake.world(), fake, FakeWorld.request(), granted, fake.world().now());
      Claim claim = new Claim(hold, null, new Settings(Unexpected.PARK, false, false), c -> {});
      found.add(new Item(claim, null, new StoredMessage(Key.of("s", id), null, null)));
    }
    return found;
  }

  @Test
  void room_is_sized_by_lease_and_handler_time() {
    Map<Long, Integer> sizes = Map.of(0L, 4, 1L, 40, 5_000L, 12, 15_000L, 4, 60_000L, 4);
    sizes.forEach(
        (took, most) -> {
          WorkQueue queue = new WorkQueue(4, LEASE);
          if (took > 0) {
            queue.add(items(1, "1"));
            queue.ended(queue.next(), TimeUnit.MILLISECONDS.toNanos(took));
          }
          assertEquals(most, queue.room());
        });
  }

  @Test
  void next_runs_no_message_twice_and_a_suspect_alone() {
    WorkQueue queue = new WorkQueue(3, LEASE);
    queue.add(items(1, "1", "1", "2"));
    Item first = queue.next();
    Item second = queue.next();
    assertEquals(List.of("1", "2"), List.of(first.message.key().id(), second.message.key().id()));
    assertNull(queue.next());
    queue.ended(first, 1);
    queue.add(items(3, "3"));
    Item again = queue.next();
    assertNotSame(first, again);
    assertNull(queue.next());
    assertEquals(0, queue.room());
    queue.ended(second, 1);
    queue.ended(again, 1);
    Item suspect = queue.next();
    queue.add(items(1, "4", "5"));
    assertEquals("3", suspect.message.key().id());
    assertNull(queue.next());
    queue.ended(suspect, 1);
    assertEquals("4", queue.next().message.key().id());
    assertEquals(1, queue.drain().size());
  }

  @Test
  void suspect_without_its_claim_blocks_no_other() {
    WorkQueue queue = new WorkQueue(4, LEASE);
    queue.add(items(1, "1"));
    queue.next();
    List<Item> suspect = items(3, "2");
    queue.add(suspect);
    queue.add(items(1, "3"));
    assertNull(queue.next());
    suspect.get(0).claim.hold().lost("LEASE_LOST");
    assertTrue(queue.room() > 0);
    assertEquals("2", queue.next().message.key().id());
    assertEquals("3", queue.next().message.key().id());
  }
}
