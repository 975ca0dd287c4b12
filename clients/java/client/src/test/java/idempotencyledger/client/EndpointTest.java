package idempotencyledger.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.proto.ClaimResponse;
import idempotencyledger.client.proto.LedgerServiceGrpc;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EndpointTest {
  @TempDir Path folder;

  private static Endpoint of(String endpoint, Map<String, String> environment) {
    return Endpoint.resolved(endpoint, null, null, null, null, environment::get);
  }

  private static void refused(String field, Runnable made) {
    assertEquals(field, assertThrows(InvalidFieldException.class, made::run).field());
  }

  @Test
  void endpoint_is_that_of_the_options_then_of_the_environment_then_the_default() {
    Map<String, String> environment = Map.of("LEDGER_ENDPOINT", "ledger:1");
    assertEquals("dns:///other:2", of("other:2", environment).target());
    assertEquals("dns:///ledger:1", of(null, environment).target());
    assertEquals("dns:///127.0.0.1:50051", of(null, Map.of("LEDGER_ENDPOINT", "")).target());
  }

  @Test
  void schemes_say_whether_there_is_tls() {
    assertTrue(of("https://ledger:1/", Map.of()).tls());
    assertEquals("dns:///ledger:1", of("https://ledger:1/", Map.of()).target());
    assertTrue(!of("http://ledger:1", Map.of()).tls());
    assertTrue(of("ledger:1", Map.of("LEDGER_CA_FILE", "ca.pem")).tls());
    assertEquals("dns:///[::1]:1", of("[::1]:1", Map.of()).target());
    for (String target : List.of("dns:///ledger:1", "unix:/run/ledger", "xds:///ledger")) {
      assertEquals(target, of(target, Map.of()).target());
    }
  }

  @Test
  void contradictions_are_refused() {
    for (String wrong : List.of("ledger", "ledger:x", ":1", "le dger:1", "https://ledger")) {
      refused("endpoint", () -> of(wrong, Map.of()));
    }
    refused("endpoint", () -> of("http://ledger:1", Map.of("LEDGER_CA_FILE", "ca.pem")));
    refused("endpoint", () -> of("ipv4:1.2.3.4:1", Map.of("LEDGER_CA_FILE", "ca.pem")));
    refused("token_file", () -> of("ledger:1", Map.of("LEDGER_TOKEN_FILE", "token")));
    Path file = folder.resolve("x");
    refused(
        "client_cert_file",
        () -> Endpoint.resolved("https://l:1", null, null, file, null, name -> null));
    refused(
        "client_cert_file", () -> Endpoint.resolved("l:1", null, null, file, file, name -> null));
  }

  @Test
  void files_that_cannot_be_read_are_named() {
    Path missing = folder.resolve("missing.pem");
    Endpoint authorities = Endpoint.resolved("l:1", null, missing, null, null, name -> null);
    refused("ca_file", authorities::channel);
  }

  @Test
  void unanswered_call_names_the_endpoint_as_it_was_given() {
    GrpcTransport transport = new GrpcTransport(of("127.0.0.1:1", Map.of()), Telemetry.found());
    CompletableFuture<ClaimResponse> answer =
        transport.start(
            LedgerServiceGrpc.getClaimMethod(),
            FakeWorld.request(),
            TimeUnit.SECONDS.toNanos(5),
            false);
    CallFailed error = (CallFailed) assertThrows(ExecutionException.class, answer::get).getCause();
    transport.close();
    String text = error.failure().text();
    String named = "no answer from 127.0.0.1:1 (option endpoint, else LEDGER_ENDPOINT): ";
    assertTrue(text.startsWith(named), text);
  }

  @Test
  void lists_of_addresses_are_checked() {
    List<InetSocketAddress> found =
        AddressList.addresses("127.0.0.1:1,[::1]:2").stream()
            .map(group -> (InetSocketAddress) group.getAddresses().get(0))
            .toList();
    assertEquals(List.of(1, 2), found.stream().map(InetSocketAddress::getPort).toList());
    for (String wrong : List.of("", "1.2.3.4", "name:1", "1.2.3.4:1,", "1.2.3.4:x")) {
      refused("endpoint", () -> AddressList.addresses(wrong));
    }
  }

  @Test
  void token_is_read_again_when_its_file_changes() throws IOException {
    Path file = Files.writeString(folder.resolve("token"), "one\n");
    TokenFile token = new TokenFile(file);
    assertEquals("one", token.token());
    Files.writeString(file, "another");
    assertEquals("another", token.token());
    Files.delete(file);
    assertThrows(IOException.class, token::token);
  }
}
