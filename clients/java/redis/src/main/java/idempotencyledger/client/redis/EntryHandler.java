package idempotencyledger.client.redis;

import idempotencyledger.client.Claim;
import idempotencyledger.client.Handler;

/** The effect of an entry of a stream. */
@FunctionalInterface
public interface EntryHandler {
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
