package idempotencyledger.client.spring;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Fingerprint;
import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.proto.ClaimRequest;
import idempotencyledger.client.proto.FailRequest;
import idempotencyledger.client.proto.FailureKind;
import idempotencyledger.client.servlet.IdempotencyFilter;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import java.io.IOException;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.autoconfigure.aop.AopAutoConfiguration;
import org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.boot.web.servlet.FilterRegistrationBean;

class StarterTest {
  private static final AutoConfigurations CONFIGURATIONS =
      AutoConfigurations.of(
          AopAutoConfiguration.class,
          JacksonAutoConfiguration.class,
          IdempotencyLedgerAutoConfiguration.class);

  private final GrantingServer service = new GrantingServer();
  private Server server;

  /** What an application stores as JSON. */
  record Receipt(String order, List<Integer> amounts) {}

  /** A service of an application. */
  static class Orders {
    int calls;

    @Idempotent(key = "#order", body = "#body", maxWait = "5s")
    public Receipt charge(String order, byte[] body, Claim claim) {
      calls++;
      return new Receipt(order + claim.token(), List.of(calls));
    }

    @Idempotent(key = "#p0", source = "refunds")
    public void refund(String order) {
      calls++;
    }

    @Idempotent(key = "#order")
    public String failing(String order) {
      calls++;
      throw new NoSuchElementException(order);
    }

    @Idempotent(key = "#order")
    public CompletableFuture<String> later(String order) {
      calls++;
      return new CompletableFuture<>();
    }

    @Idempotent(key = "#order")
    public Object laterUndeclared(String order) {
      return later(order);
    }
  }

  @BeforeEach
  void start() throws IOException {
    server = GrantingServer.start(service);
  }

  @AfterEach
  void stop() {
    server.shutdownNow();
  }

  private ApplicationContextRunner application() {
    return new ApplicationContextRunner()
        .withConfiguration(CONFIGURATIONS)
        .withBean(Orders.class)
        .withPropertyValues(
            "idempotency-ledger.consumer=orders",
            "idempotency-ledger.endpoint=127.0.0.1:" + server.getPort(),
            "idempotency-ledger.lease=10s",
            "idempotency-ledger.unexpected=retry");
  }

  private List<ClaimRequest> claims() {
    return service.asked.stream()
        .filter(ClaimRequest.class::isInstance)
        .map(ClaimRequest.class::cast)
        .toList();
  }

  @Test
  void repeated_call_returns_the_first_value() {
    application()
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              Receipt first = orders.charge("1", new byte[] {1}, null);
              assertEquals(new Receipt("17", List.of(1)), first);
              assertEquals(first, orders.charge("1", new byte[] {1}, null));
              ClaimRequest claim = claims().get(0);
              assertEquals("Orders.charge", claim.getKey().getSource());
              assertEquals("1", claim.getKey().getId());
              assertEquals(5, claim.getWait().getSeconds());
              assertEquals(10, claim.getLease().getSeconds());
              assertArrayEquals(
                  java.security.MessageDigest.getInstance("SHA-256").digest(new byte[] {1}),
                  claim.getFingerprint().toByteArray());
              assertNotNull(Fingerprint.of(new byte[] {1}));
            });
  }

  @Test
  void method_without_a_value_runs_once() {
    application()
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              orders.refund("1");
              orders.refund("1");
              assertEquals("refunds", claims().get(0).getKey().getSource());
              assertEquals(2, claims().size());
              orders.refund("2");
              assertEquals(5, service.asked.size(), "two calls have completed");
            });
  }

  @Test
  void error_of_the_method_is_thrown() {
    application()
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              assertThrows(NoSuchElementException.class, () -> orders.failing("1"));
              assertTrue(service.asked.get(1).toString().contains("FAILURE_KIND_RETRYABLE"));
            });
  }

  @Test
  void method_that_returns_a_future_is_refused_before_the_claim() {
    application()
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              Exception error = assertThrows(InvalidFieldException.class, () -> orders.later("1"));
              assertEquals(
                  "method: Orders.later returns a CompletableFuture, whose work may still run when"
                      + " the call is completed: return its value",
                  error.getMessage());
              assertTrue(service.asked.isEmpty());
            });
  }

  @Test
  void future_that_is_returned_parks_the_call_whatever_errors_mean() {
    application()
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              Exception error =
                  assertThrows(InvalidFieldException.class, () -> orders.laterUndeclared("1"));
              String text =
                  "call: returned a CompletableFuture, whose work may still run: wait for it, and"
                      + " return its value";
              assertEquals(text, error.getMessage());
              assertEquals(2, service.asked.size());
              FailRequest sent = (FailRequest) service.asked.get(1);
              assertEquals(FailureKind.FAILURE_KIND_PARK, sent.getKind());
              assertEquals(text, sent.getError());
            });
  }

  @Test
  void key_that_is_not_allowed_is_the_fault_of_the_program() {
    application()
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              assertThrows(InvalidFieldException.class, () -> orders.refund(null));
              assertThrows(InvalidFieldException.class, () -> orders.refund("x".repeat(513)));
              assertTrue(service.asked.isEmpty());
            });
  }

  @Test
  void client_is_closed_with_the_application() {
    Ledger[] kept = new Ledger[1];
    application()
        .run(
            context -> {
              kept[0] = context.getBean(Ledger.class);
              assertFalse(kept[0].closing());
            });
    assertTrue(kept[0].closing());
  }

  @Test
  void nothing_is_configured_without_a_consumer() {
    new ApplicationContextRunner()
        .withConfiguration(CONFIGURATIONS)
        .run(
            context -> {
              assertNull(context.getStartupFailure());
              assertFalse(context.containsBean("idempotencyLedger"));
            });
  }

  @Test
  void use_without_a_consumer_names_the_property() {
    String missing = "set idempotency-ledger.consumer";
    new ApplicationContextRunner()
        .withConfiguration(CONFIGURATIONS)
        .withBean(Orders.class)
        .run(
            context -> {
              Orders orders = context.getBean(Orders.class);
              Exception error = assertThrows(IllegalStateException.class, () -> orders.refund("1"));
              assertTrue(error.getMessage().contains(missing), error.getMessage());
            });
    new WebApplicationContextRunner()
        .withConfiguration(CONFIGURATIONS)
        .withPropertyValues("idempotency-ledger.http.enabled=true")
        .run(
            context -> {
              String text = String.valueOf(context.getStartupFailure());
              assertTrue(text.contains(missing), text);
            });
  }

  @Test
  void filter_is_registered_where_it_is_enabled() {
    WebApplicationContextRunner web =
        new WebApplicationContextRunner()
            .withConfiguration(CONFIGURATIONS)
            .withPropertyValues("idempotency-ledger.consumer=orders");
    web.run(context -> assertFalse(context.containsBean("idempotencyFilter")));
    web.withPropertyValues(
            "idempotency-ledger.http.enabled=true", "idempotency-ledger.http.url-patterns=/api/*")
        .run(
            context -> {
              FilterRegistrationBean<?> filter = context.getBean(FilterRegistrationBean.class);
              assertTrue(filter.getFilter() instanceof IdempotencyFilter);
              assertEquals(List.of("/api/*"), List.copyOf(filter.getUrlPatterns()));
            });
  }
}
