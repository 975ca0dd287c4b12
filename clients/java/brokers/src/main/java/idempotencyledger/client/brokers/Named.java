package idempotencyledger.client.brokers;

import idempotencyledger.client.InvalidFieldException;
import idempotencyledger.client.Key;
import java.time.Instant;

/**
 * The name of a delivery, and when its message was made.
 *
 * @param key source and id that the producer gave, the same on each delivery
 * @param occurredAt when the producer made the message: one that is older than what the ledger
 *     remembers is dead-lettered. Null: not known
 */
public record Named(Key key, Instant occurredAt) {
  /**
   * The name of a delivery.
   *
   * @param key source and id
   * @param occurredAt when the message was made; null: not known
   * @throws InvalidFieldException where the key is null
   */
  public Named {
    if (key == null) {
      throw new InvalidFieldException("key", "must not be null");
    }
  }

  /**
   * The name of a delivery whose age is not known.
   *
   * @param source the producer
   * @param id unique within its source
   * @return the name
   * @throws InvalidFieldException where a part is null
   */
  public static Named of(String source, String id) {
    return new Named(Key.of(source, id), null);
  }
}
