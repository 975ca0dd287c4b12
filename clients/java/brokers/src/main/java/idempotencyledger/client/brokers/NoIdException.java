package idempotencyledger.client.brokers;

import idempotencyledger.client.LedgerException;

/**
 * A delivery has no id. It is dead-lettered, and never given an id: a redelivery would get another
 * one, and have a second effect.
 */
public final class NoIdException extends LedgerException {
  private static final long serialVersionUID = 1L;

  /**
   * Makes the error of a delivery.
   *
   * @param message what is missing, for the log: without payloads and keys
   */
  public NoIdException(String message) {
    super(message);
  }
}
