package idempotencyledger.client.springintegration;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Ledger;
import idempotencyledger.client.UndecidedDeliveryException;
import idempotencyledger.client.testing.GrantingServer;
import io.grpc.Server;
import java.io.IOException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.integration.selector.MetadataStoreSelector;
import org.springframework.messaging.support.GenericMessage;

class LedgerMetadataStoreTest {
  private final GrantingServer service = new GrantingServer();
  private Server server;
  private Ledger ledger;
  private LedgerMetadataStore store;

  @BeforeEach
  void start() throws IOException {
    server = GrantingServer.start(service);
    ledger = Ledger.builder("flows").endpoint("127.0.0.1:" + server.getPort()).build();
    store = new LedgerMetadataStore(ledger, "shop");
  }

  @AfterEach
  void stop() {
    ledger.close();
    server.shutdownNow();
  }

  @Test
  void first_value_stays() {
    assertNull(store.putIfAbsent("1", "a"));
    assertEquals("a", store.putIfAbsent("1", "b"));
  }

  @Test
  void selector_lets_one_message_pass() {
    MetadataStoreSelector selector =
        new MetadataStoreSelector(message -> String.valueOf(message.getPayload()), store);
    assertTrue(selector.accept(new GenericMessage<>("order-1")));
    assertFalse(selector.accept(new GenericMessage<>("order-1")));
    assertTrue(selector.accept(new GenericMessage<>("order-2")));
  }

  @Test
  void what_the_ledger_cannot_do_is_refused() {
    assertThrows(UnsupportedOperationException.class, () -> store.replace("1", "a", "b"));
    assertThrows(UnsupportedOperationException.class, () -> store.put("1", "a"));
    assertThrows(UnsupportedOperationException.class, () -> store.get("1"));
    assertThrows(UnsupportedOperationException.class, () -> store.remove("1"));
    assertThrows(InvalidFieldException.class, () -> store.putIfAbsent("", "a"));
  }

  @Test
  void closed_key_is_neither_new_nor_a_duplicate() {
    service.refusing = true;
    UndecidedDeliveryException error =
        assertThrows(UndecidedDeliveryException.class, () -> store.putIfAbsent("1", "a"));
    assertEquals("parked", error.outcome().reason().orElseThrow());
  }
}
