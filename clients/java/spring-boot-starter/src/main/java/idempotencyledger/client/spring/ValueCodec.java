package idempotencyledger.client.spring;

import java.lang.reflect.Type;

/**
 * How values of {@link Idempotent} methods become the bytes that the ledger stores. By default
 * JSON, by the application's mapper.
 */
public interface ValueCodec {
  /**
   * Writes a value. Where it throws, the call is completed without a value.
   *
   * @param value the value, or null
   * @param type the type that the method returns
   * @return its bytes, at most 16 KiB by default
   */
  byte[] encode(Object value, Type type);

  /**
   * Reads a value back.
   *
   * @param bytes what {@link #encode} has written
   * @param type the type that the method returns
   * @return the value, or null
   */
  Object decode(byte[] bytes, Type type);
}
