package idempotencyledger.client;

/** The effect of a message of the inbox, at most one at a time. */
@FunctionalInterface
public interface StoredMessageHandler {
  /**
   * Has the effect.
   *
   * @param claim the right to process the message
   * @param message the message
   * @return the result, as {@link Handler#handle}
   * @throws Exception as {@link Handler#handle}
   */
  byte[] handle(Claim claim, StoredMessage message) throws Exception;
}
