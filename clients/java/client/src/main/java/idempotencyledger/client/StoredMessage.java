package idempotencyledger.client;

import java.time.Instant;

/**
 * A message that the ledger kept, as a worker's handler sees it.
 *
 * @param key its name
 * @param message what was stored
 * @param storedAt when it was stored, by the store's clock
 */
public record StoredMessage(Key key, InboxMessage message, Instant storedAt) {
  /**
   * The payload.
   *
   * @return a copy of it
   */
  public byte[] payload() {
    return message.payload();
  }
}
