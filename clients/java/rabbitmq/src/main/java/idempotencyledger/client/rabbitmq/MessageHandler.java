package idempotencyledger.client.rabbitmq;

import com.rabbitmq.client.Delivery;
import idempotencyledger.client.Claim;
import idempotencyledger.client.Handler;
import idempotencyledger.client.Ledger;

/** The effect of a message of RabbitMQ. */
@FunctionalInterface
public interface MessageHandler {
  /**
   * In place of a handler: each message is stored in the ledger's inbox, and acknowledged when it
   * is kept. {@link Ledger#worker} processes it later.
   */
  MessageHandler STORE =
      (claim, message) -> {
        throw new UnsupportedOperationException("a message that is stored has no handler here");
      };

  /**
   * Has the effect; returns when it has happened.
   *
   * @param claim the right to process the message
   * @param message the message as it was delivered; the adapter acknowledges it
   * @return the result: see {@link Handler#handle}
   * @throws Exception as {@link Handler#handle}
   */
  byte[] handle(Claim claim, Delivery message) throws Exception;
}
