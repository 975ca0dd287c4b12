package idempotencyledger.client;

/**
 * How a value becomes the bytes that the ledger stores, and how they are read back.
 *
 * @param <T> the type of the values
 */
public interface Codec<T> {
  /**
   * Writes a value. Where it throws, the message is completed without a result.
   *
   * @param value the value, or null
   * @return its bytes
   */
  byte[] encode(T value);

  /**
   * Reads a value back.
   *
   * @param bytes what {@link #encode} has written
   * @return the value, or null
   */
  T decode(byte[] bytes);
}
