package idempotencyledger.client;

import static idempotencyledger.client.SpoolScript.AWAY;
import static idempotencyledger.client.SpoolScript.DELIVERY;
import static idempotencyledger.client.SpoolScript.NEVER;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class SpoolFileTest {
  @TempDir Path folder;
  private Path path;

  @BeforeEach
  void name() {
    path = folder.resolve("spool.jsonl");
  }

  private List<Map<String, String>> lines() throws IOException {
    return Files.readAllLines(path).stream().map(SpoolScript::fields).toList();
  }

  private List<String> events() throws IOException {
    return lines().stream().map(line -> line.get("event")).toList();
  }

  private static void refused(Path path, String why) {
    String message = assertThrows(SpoolFailedException.class, () -> Spool.open(path)).getMessage();
    assertTrue(message.contains(why), message);
  }

  @Test
  void effect_without_a_claim_is_written_down_before_and_after() throws IOException {
    List<String> during = new ArrayList<>();
    try (Spool spool = Spool.open(path)) {
      Outcome found =
          spool.process(
              AWAY,
              "payments",
              Key.of("shop", "order-1"),
              "body".getBytes(),
              () -> {
                during.addAll(events());
                return "paid".getBytes();
              });
      assertEquals(Advice.ACK, found.advice());
      assertArrayEquals("paid".getBytes(), found.result().orElseThrow());
      assertTrue(found.away() && !found.effectUnknown() && !found.resultDropped());
    }
    assertEquals(List.of("begin"), during);
    Map<String, String> first = lines().get(0);
    Map<String, String> last = lines().get(1);
    assertEquals("1", first.get("v"));
    assertEquals("payments", first.get("consumer"));
    assertEquals(Key.of("shop", "order-1"), Key.of(first.get("source"), first.get("id")));
    assertEquals(64, first.get("fingerprint_hex").length());
    assertEquals("end", last.get("event"));
    assertEquals("cGFpZA==", last.get("result_base64"));
    assertEquals(first.get("row"), last.get("row"));
    assertTrue(first.get("at").compareTo(last.get("at")) < 0);
    assertTrue(first.get("at").matches("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z"));
  }

  @Test
  void spool_file_is_readable_for_its_owner_alone() throws IOException {
    Spool.open(path).close();
    assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(path)));
  }

  @Test
  void lines_have_the_form_of_the_documented_example() throws IOException {
    String page = Files.readString(Path.of("../../../docs/away.md"));
    String example = page.split("```json\n")[1].split("```")[0];
    StringBuilder written = new StringBuilder();
    for (String text : example.split("\n")) {
      Map<String, String> line = SpoolScript.fields(text);
      byte[] digest = HexFormat.of().parseHex(line.getOrDefault("fingerprint_hex", ""));
      byte[] result = Base64.getDecoder().decode(line.getOrDefault("result_base64", ""));
      SpoolLine same =
          new SpoolLine(
              line.get("row"),
              line.get("consumer"),
              line.get("source"),
              line.get("id"),
              digest,
              result);
      byte[] rendered = same.render(line.get("event"), Instant.parse(line.get("at")));
      written.append(new String(rendered, StandardCharsets.UTF_8));
    }
    assertEquals(example, written.toString());
    assertEquals(3, example.split("\n").length);
  }

  @Test
  void a_line_that_was_cut_off_is_not_continued() throws IOException {
    Files.writeString(path, "{\"v\":1,\"ev");
    try (Spool spool = Spool.open(path)) {
      spool.process(AWAY, "payments", DELIVERY, () -> null);
    }
    List<String> lines = Files.readAllLines(path);
    assertEquals("{\"v\":1,\"ev", lines.get(0));
    assertEquals("begin", SpoolScript.fields(lines.get(1)).get("event"));
    assertEquals(3, lines.size());
    // Opened again where the last line is whole, nothing is added.
    Spool.open(path).close();
    assertEquals(lines, Files.readAllLines(path));
  }

  @Test
  void a_second_opener_is_refused_also_after_another_reader_of_the_file() throws IOException {
    try (Spool spool = Spool.open(path)) {
      refused(path, "has the file");
      Path link = Files.createSymbolicLink(folder.resolve("link"), path);
      refused(link, "has the file");
      // In Java a lock would end with the descriptor of any other reader in this process.
      assertEquals(List.of(), events());
      Process other = SpoolProcess.start(path);
      try (BufferedReader said = other.inputReader()) {
        String line = said.readLine();
        assertTrue(line.contains("has the file"), line);
      }
      spool.process(AWAY, "payments", DELIVERY, () -> null);
      assertEquals(List.of("begin", "end"), events());
    }
    Spool.open(path).close();
  }

  @Test
  void refused_openers_of_this_process_leave_no_descriptor_open() throws IOException {
    Path descriptors = Path.of("/proc/self/fd");
    Assumptions.assumeTrue(Files.isDirectory(descriptors));
    try (Spool spool = Spool.open(path)) {
      refused(path, "has the file");
      int before = descriptors.toFile().list().length;
      for (int i = 0; i < 100; i++) {
        refused(path, "has the file");
      }
      int opened = descriptors.toFile().list().length - before;
      assertTrue(opened < 50, opened + " descriptors");
      spool.process(AWAY, "payments", DELIVERY, () -> null);
    }
  }

  @Test
  void a_process_killed_amid_the_effect_leaves_the_beginning() throws Exception {
    Process other = SpoolProcess.start(path);
    try (BufferedReader said = other.inputReader()) {
      assertEquals("runs", said.readLine());
      refused(path, "has the file");
      other.destroyForcibly().waitFor();
    }
    assertEquals(List.of("begin"), events());
    try (Spool spool = Spool.open(path)) {
      spool.process(AWAY, "payments", DELIVERY, () -> null);
    }
    assertEquals(List.of("begin", "begin", "end"), events());
  }

  @Test
  void an_interrupted_effect_is_noted_and_the_spool_goes_on() throws IOException {
    try (Spool spool = Spool.open(path)) {
      Outcome found =
          spool.process(
              AWAY,
              "payments",
              DELIVERY,
              () -> {
                Thread.currentThread().interrupt();
                return null;
              });
      assertTrue(Thread.interrupted());
      assertEquals(Advice.ACK, found.advice());
      assertEquals(Advice.ACK, spool.process(AWAY, "payments", DELIVERY, () -> null).advice());
    }
    assertEquals(List.of("begin", "end", "begin", "end"), events());
  }

  @Test
  void a_closed_spool_runs_nothing() {
    Spool spool = Spool.open(path);
    spool.close();
    spool.close();
    Outcome found = spool.process(AWAY, "payments", DELIVERY, NEVER);
    assertEquals("SPOOL_FAILED", found.reason().orElseThrow());
    assertTrue(found.detail().contains("closed"));
  }

  @Test
  void a_file_that_cannot_be_opened_is_refused_and_not_kept() throws IOException {
    refused(folder.resolve("missing/spool.jsonl"), "missing");
    Files.createDirectory(path);
    refused(path, "spool.jsonl");
    Files.delete(path);
    Spool.open(path).close();
  }
}
