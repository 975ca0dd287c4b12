package idempotencyledger.client.camel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.UndecidedDeliveryException;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import java.util.ArrayList;
import java.util.List;
import org.apache.camel.CamelExecutionException;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.builder.RouteBuilder;
import org.apache.camel.impl.DefaultCamelContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class LedgerIdempotentRepositoryTest {
  private final GrantingServer service = new GrantingServer();
  private final List<String> effects = new ArrayList<>();
  private final DefaultCamelContext camel = new DefaultCamelContext();
  private Server server;
  private Ledger ledger;
  private LedgerIdempotentRepository repository;
  private ProducerTemplate producer;

  @BeforeEach
  void start() throws Exception {
    server = GrantingServer.start(service);
    ledger = Ledger.builder("routes").endpoint("127.0.0.1:" + server.getPort()).build();
    repository = new LedgerIdempotentRepository(ledger, "shop");
    camel.addRoutes(
        new RouteBuilder() {
          @Override
          public void configure() {
            from("direct:orders")
                .idempotentConsumer(header("id"))
                .idempotentRepository(repository)
                .process(
                    exchange -> {
                      Claim claim =
                          exchange.getProperty(LedgerIdempotentRepository.CLAIM, Claim.class);
                      effects.add(exchange.getIn().getHeader("id") + "-" + claim.token());
                      if (exchange.getIn().getHeader("id").equals("faulty")) {
                        throw new IllegalStateException("faulty");
                      }
                    });
          }
        });
    camel.start();
    producer = camel.createProducerTemplate();
  }

  @AfterEach
  void stop() {
    camel.stop();
    ledger.close();
    server.shutdownNow();
  }

  private void send(String id) {
    producer.sendBodyAndHeader("direct:orders", "body", "id", id);
  }

  private String lastCall() {
    return service.asked.get(service.asked.size() - 1).getClass().getSimpleName();
  }

  @Test
  void route_runs_once_for_a_key() {
    send("1");
    send("1");
    assertEquals(List.of("1-7"), effects);
    assertEquals(3, service.asked.size(), "Claim, Complete, Claim");
  }

  @Test
  void route_that_fails_ends_its_claim() {
    assertThrows(CamelExecutionException.class, () -> send("faulty"));
    assertEquals("FailRequest", lastCall());
    assertFalse(repository.remove("faulty"));
  }

  @Test
  void message_that_is_neither_new_nor_done_fails() {
    service.refusing = true;
    CamelExecutionException error =
        assertThrows(CamelExecutionException.class, () -> send("parked"));
    assertTrue(error.getCause() instanceof UndecidedDeliveryException, error.toString());
    assertTrue(effects.isEmpty());
  }

  @Test
  void what_would_guess_is_refused() {
    assertThrows(UnsupportedOperationException.class, () -> repository.contains("1"));
    assertThrows(UnsupportedOperationException.class, repository::clear);
    assertFalse(repository.confirm("never claimed"));
  }
}
