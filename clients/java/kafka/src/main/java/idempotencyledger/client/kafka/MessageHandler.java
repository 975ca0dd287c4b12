package idempotencyledger.client.kafka;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Handler;
import idempotencyledger.client.Ledger;
import org.apache.kafka.clients.consumer.ConsumerRecord;

/** The effect of a message of Kafka. */
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
   * @param message the message as it was read
   * @return the result: see {@link Handler#handle}
   * @throws Exception as {@link Handler#handle}
   */
  byte[] handle(Claim claim, ConsumerRecord<byte[], byte[]> message) throws Exception;
}
