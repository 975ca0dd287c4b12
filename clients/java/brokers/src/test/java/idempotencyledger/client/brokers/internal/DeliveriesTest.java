package idempotencyledger.client.brokers.internal;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import idempotencyledger.client.ClosedException;
import idempotencyledger.client.Handler;
import idempotencyledger.client.InboxMessage;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.brokers.Named;
import idempotencyledger.client.brokers.NoIdException;
import idempotencyledger.client.brokers.internal.Verdict.Kind;
import idempotencyledger.client.proto.ReleaseRequest;
import idempotencyledger.client.proto.StoreRequest;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class DeliveriesTest {
  private static final Supplier<Named> NAME = () -> Named.of("orders", "1");
  private static final Handler DONE = claim -> new byte[] {1};

  private final GrantingServer service = new GrantingServer();
  private Server server;
  private Ledger ledger;
  private Deliveries deliveries;

  @BeforeEach
  void start() throws Exception {
    server = GrantingServer.start(service);
    ledger = Ledger.builder("payments").endpoint("127.0.0.1:" + server.getPort()).build();
    deliveries = new Deliveries(ledger, new Log("topic orders"));
  }

  @AfterEach
  void stop() {
    ledger.close();
    server.shutdownNow();
  }

  private Kind process(Supplier<Named> name, Handler handler) {
    return deliveries.process(name, new byte[] {7}, () -> false, handler).kind();
  }

  @Test
  void completed_message_is_acknowledged_and_not_repeated() {
    AtomicInteger effects = new AtomicInteger();
    Handler handler = claim -> new byte[] {(byte) effects.incrementAndGet()};
    assertEquals(Kind.ACK, process(NAME, handler));
    assertEquals(Kind.ACK, process(NAME, handler));
    assertEquals(1, effects.get());
    assertNull(deliveries.failure());
  }

  @Test
  void store_sends_the_message_and_no_claim() {
    InboxMessage message = InboxMessage.of(new byte[] {7}).withTopic("orders");
    assertEquals(Kind.ACK, deliveries.store(NAME, message, () -> false).kind());
    assertEquals(Kind.NOT_BEGUN, deliveries.store(NAME, message, () -> true).kind());
    assertEquals(1, service.asked.size());
    StoreRequest request = assertInstanceOf(StoreRequest.class, service.asked.get(0));
    assertEquals("orders", request.getMessage().getTopic());
    assertNull(deliveries.failure());
  }

  @Test
  void delivery_without_an_id_is_a_dead_letter_and_sends_nothing() {
    Supplier<Named> none =
        () -> {
          throw new NoIdException("no header");
        };
    assertEquals(Kind.DEAD_LETTER, process(none, DONE));
    assertEquals(0, service.asked.size());
    assertNull(deliveries.failure());
  }

  @Test
  void what_the_program_has_wrong_ends_the_run() {
    IllegalArgumentException wrong = new IllegalArgumentException();
    Supplier<Named> name =
        () -> {
          throw wrong;
        };
    assertEquals(Kind.NOT_BEGUN, process(name, DONE));
    assertSame(wrong, deliveries.failure());
  }

  @Test
  void error_of_a_handler_ends_the_run_after_its_claim_is_settled() {
    Handler broken =
        claim -> {
          throw new StackOverflowError();
        };
    assertEquals(Kind.NOT_BEGUN, process(NAME, broken));
    assertInstanceOf(StackOverflowError.class, deliveries.failure());
    assertEquals(2, service.asked.size());
  }

  @Test
  void closed_client_ends_the_run() {
    ledger.close();
    assertEquals(Kind.NOT_BEGUN, process(NAME, DONE));
    assertInstanceOf(ClosedException.class, deliveries.failure());
  }

  @Test
  void claim_that_arrives_too_late_is_given_back() {
    AtomicInteger asked = new AtomicInteger();
    Verdict verdict =
        deliveries.process(NAME, new byte[0], () -> asked.incrementAndGet() > 1, DONE);
    assertEquals(Kind.NOT_BEGUN, verdict.kind());
    assertInstanceOf(ReleaseRequest.class, service.asked.get(1));
  }

  private void end(int running) throws IOException {
    deliveries.end(running, Duration.ofSeconds(20), IOException.class);
  }

  @Test
  void run_without_a_failure_ends() throws IOException {
    end(0);
  }

  @Test
  void run_with_running_handlers_does_not_end_in_good_order() {
    String text = assertThrows(IllegalStateException.class, () -> end(2)).getMessage();
    assertEquals("2 handlers still run PT20S after the request to stop", text);
  }

  @Test
  void failure_of_a_run_is_thrown_with_the_handlers_that_still_run() {
    IOException lost = new IOException("lost");
    deliveries.fail(lost);
    deliveries.fail(new IllegalStateException("a later one"));
    assertSame(lost, assertThrows(IOException.class, () -> end(1)));
    assertInstanceOf(IllegalStateException.class, lost.getSuppressed()[0]);
  }

  @Test
  void failure_that_is_not_declared_is_wrapped() {
    InterruptedException undeclared = new InterruptedException();
    deliveries.fail(undeclared);
    assertSame(undeclared, assertThrows(IllegalStateException.class, () -> end(0)).getCause());
  }

  @Test
  void interrupt_of_a_handler_does_not_reach_the_next_delivery() {
    Handler interrupts =
        claim -> {
          Thread.currentThread().interrupt();
          return null;
        };
    assertEquals(Kind.ACK, process(NAME, interrupts));
    assertEquals(Kind.ACK, process(() -> Named.of("orders", "2"), DONE));
  }
}
