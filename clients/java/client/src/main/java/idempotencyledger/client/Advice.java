package idempotencyledger.client;

/** What to do with the broker's message. */
public enum Advice {
  /** The message is completed: acknowledge it. */
  ACK,
  /** Do not acknowledge it: let the broker deliver it again, after {@link Outcome#delay()}. */
  RETRY_LATER,
  /** Only a person can change the answer: store a safe copy, then acknowledge it. */
  DEAD_LETTER
}
