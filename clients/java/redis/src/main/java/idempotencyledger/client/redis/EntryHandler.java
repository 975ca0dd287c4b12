package idempotencyledger.client.redis;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Handler;
import idempotencyledger.client.Ledger;

/** The effect of an entry of a stream. */
@FunctionalInterface
public interface EntryHandler {
  /**
   * In place of a handler: each entry is stored in the ledger's inbox, and acknowledged when it is
   * kept. {@link Ledger#worker} processes it later.
   */
  EntryHandler STORE =
      (claim, entry) -> {
        throw new UnsupportedOperationException("a entry that is stored has no handler here");
      };

  /**
   * Has the effect; returns when it has happened.
   *
   * @param claim the right to process the entry
   * @param entry the entry; the adapter acknowledges it
   * @return the result: see {@link Handler#handle}
   * @throws Exception as {@link Handler#handle}
   */
  byte[] handle(Claim claim, Entry entry) throws Exception;
}
