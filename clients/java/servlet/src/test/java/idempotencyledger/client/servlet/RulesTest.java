package idempotencyledger.client.servlet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.GiveBack;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Park;
import idempotencyledger.client.Retry;
import idempotencyledger.client.servlet.Answer.Header;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class RulesTest {
  private final IdempotencySettings settings = new IdempotencySettings();

  @Test
  void keys_are_bare_or_quoted() {
    assertEquals(Optional.of("a-1"), Rules.key(List.of("a-1")));
    assertEquals(Optional.of("a b\"c"), Rules.key(List.of("\"a b\\\"c\"")));
    assertEquals(Optional.of("k".repeat(255)), Rules.key(List.of("k".repeat(255))));
    for (String wrong :
        List.of("", "a b", "a,b", "\"a", "\"a\";b", "k".repeat(256), "\u00fc", "a\n", "\"\"")) {
      assertEquals(Optional.empty(), Rules.key(List.of(wrong)), wrong);
    }
    assertEquals(Optional.empty(), Rules.key(List.of("a", "b")));
  }

  @Test
  void sources_of_two_tenants_differ() {
    assertEquals("a/POST/%2Forders", Rules.source("a", "POST", "/orders"));
    assertEquals("%C3%A9%20%2B~%2A/POST/_.-", Rules.source("\u00e9 +~*", "POST", "_.-"));
    String first = Rules.source("t".repeat(300) + "1", "POST", "/orders");
    String second = Rules.source("t".repeat(300) + "2", "POST", "/orders");
    assertTrue(first.matches("[0-9a-f]{64}") && !first.equals(second), first);
    assertThrows(InvalidFieldException.class, () -> Rules.source("\ud800", "POST", "/"));
  }

  @Test
  void source_of_a_null_tenant_is_refused_by_the_setting() {
    InvalidFieldException error =
        assertThrows(InvalidFieldException.class, () -> Rules.source(null, "POST", "/orders"));
    assertTrue(error.getMessage().contains("IdempotencySettings.tenant"), error.getMessage());
  }

  @Test
  void statuses_say_how_the_claim_is_settled() {
    for (int status : List.of(400, 401, 403, 404, 409, 422, 429)) {
      GiveBack given = (GiveBack) Rules.ending(settings, status, false).orElseThrow();
      assertTrue(given.unpinFingerprint());
      assertTrue(Rules.ending(settings, status, true).isEmpty());
    }
    for (int status : List.of(200, 201, 302, 402, 418)) {
      assertTrue(Rules.ending(settings, status, false).isEmpty());
    }
    assertTrue(Rules.ending(settings, 500, false).orElseThrow() instanceof Retry);
    assertTrue(Rules.ending(settings, 503, true).orElseThrow() instanceof Park);
  }

  /** The form is that of all packages: clients/README.md. */
  @Test
  void stored_form_is_a_line_of_json_and_the_body() {
    Answer answer =
        new Answer(
            201,
            List.of(new Header("location", "/orders/1?a=b&c"), new Header("x-private", "no")),
            "created\n".getBytes(StandardCharsets.UTF_8));
    assertEquals(
        "[201,[[\"location\",\"/orders/1?a=b&c\"]]]\ncreated\n",
        new String(Rules.stored(settings, answer, true), StandardCharsets.UTF_8));
    String omitted = "[201,[[\"location\",\"/orders/1?a=b&c\"]],\"omitted\"]";
    settings.resultMax(40);
    assertEquals(omitted, new String(Rules.stored(settings, answer, true), StandardCharsets.UTF_8));
    settings.resultMax(1000);
    assertEquals(
        omitted, new String(Rules.stored(settings, answer, false), StandardCharsets.UTF_8));
  }

  @Test
  void forms_of_the_same_answer_are_stored_up_to_the_bound() {
    Answer answer = new Answer(200, List.of(), new byte[10]);
    int size = Rules.stored(settings, answer, true).length;
    assertFalse(new String(Rules.stored(settings.resultMax(size), answer, true)).contains("omit"));
    assertTrue(
        new String(Rules.stored(settings.resultMax(size - 1), answer, true)).contains("omit"));
  }

  @Test
  void stored_forms_of_other_packages_are_read() {
    String python = "[201, [[\"location\", \"/orders/\\u00e9\"]]]\ncre\nated";
    Rules.Replayed whole = replayed(python);
    assertEquals(201, whole.answer().status());
    assertEquals(new Header("location", "/orders/\u00e9"), whole.answer().headers().get(0));
    assertEquals("cre\nated", new String(whole.answer().body(), StandardCharsets.UTF_8));
    assertFalse(whole.omitted());
    Rules.Replayed omitted = replayed("[201, [], \"omitted\"]");
    assertTrue(omitted.omitted());
    assertEquals(0, omitted.answer().body().length);
    assertTrue(omitted.answer().headers().contains(new Header("idempotency-body", "omitted")));
    Rules.Replayed nothing = Rules.replayed(Optional.empty());
    assertTrue(nothing.omitted() && nothing.answer().status() == 200);
  }

  private static Rules.Replayed replayed(String stored) {
    return Rules.replayed(Optional.of(stored.getBytes(StandardCharsets.UTF_8)));
  }

  @Test
  void marks_keep_the_answer() {
    Answer marked = Rules.marked(new Answer(200, List.of(new Header("a", "b")), new byte[] {1}));
    assertEquals(
        List.of(new Header("a", "b"), new Header("idempotency-replayed", "true")),
        marked.headers());
    assertEquals(1, marked.body().length);
  }
}
