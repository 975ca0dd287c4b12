package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class KeyTest {
  @Test
  void keys_at_the_bounds_are_right() {
    assertTrue(Key.of("s".repeat(256), "i".repeat(512)).fault().isEmpty());
    assertTrue(Key.of("\u00e9".repeat(128), "a b").fault().isEmpty());
  }

  @Test
  void faults_of_a_message_are_found() {
    for (String id :
        List.of("", "i".repeat(513), "\u00e9".repeat(257), "a\nb", "a\u0085", "\ud800")) {
      assertEquals("key.id", Key.of("s", id).fault().orElseThrow().field());
    }
    for (String source : List.of("", "s".repeat(257), "\u0000", "\udc00x")) {
      assertEquals("key.source", Key.of(source, "i").fault().orElseThrow().field());
    }
  }

  @Test
  void faults_of_the_program_are_thrown() {
    assertThrows(InvalidFieldException.class, () -> Key.of(null, "i"));
    assertThrows(InvalidFieldException.class, () -> Key.of("s", null));
    for (String run : List.of("a/b", "r".repeat(65), "\u00e9")) {
      InvalidFieldException error =
          assertThrows(InvalidFieldException.class, () -> Key.of("s", "i").inReplayRun(run));
      assertEquals("key.replay_run", error.field());
    }
    assertThrows(InvalidFieldException.class, () -> Ledger.builder("c\t"));
    assertThrows(InvalidFieldException.class, () -> Ledger.builder("c").owner(""));
    assertThrows(
        InvalidFieldException.class, () -> Ledger.builder("c").lease(Duration.ofMillis(999)));
    assertThrows(InvalidFieldException.class, () -> new Retry(Duration.ofDays(31)));
    assertThrows(InvalidFieldException.class, () -> new Retry(Duration.ofSeconds(-1)));
    Delivery delivery = Delivery.of(Key.of("s", "i"));
    assertThrows(InvalidFieldException.class, () -> delivery.withWait(Duration.ofHours(2)));
    assertThrows(InvalidFieldException.class, () -> Fingerprint.ofDigest(new byte[65]));
  }

  @Test
  void cloud_event_gives_source_and_id() {
    Key key = Key.fromCloudEvent(Map.of("source", URI.create("/shop"), "id", "1", "type", "t"));
    assertEquals(Key.of("/shop", "1"), key);
    assertFalse(Key.fromCloudEvent(Map.of("id", "1")).fault().isEmpty());
  }

  @Test
  void durations_have_whole_microseconds() {
    assertEquals(333_333_000, Protos.duration(Duration.ofSeconds(1).dividedBy(3)).getNanos());
    assertEquals(250_000_000, Protos.duration(Duration.ofNanos(250_000_250)).getNanos());
  }

  @Test
  void fingerprint_is_the_digest_of_the_raw_body() {
    byte[] body = "abc".getBytes(StandardCharsets.UTF_8);
    byte[] digest =
        HexFormat.of().parseHex("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assertArrayEquals(digest, Fingerprint.of(body).digest().toByteArray());
  }
}
