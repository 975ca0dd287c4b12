package idempotencyledger.client;

import com.google.protobuf.ByteString;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** A digest of the message's body, by which another body under the same key is found out. */
public final class Fingerprint {
  private final ByteString digest;

  private Fingerprint(ByteString digest) {
    this.digest = digest;
  }

  /**
   * The SHA-256 of the broker's raw body, before any decoding. An object that was decoded and
   * serialised again has other bytes in another version or language.
   *
   * @param body the body as the broker has it
   * @return its fingerprint
   */
  public static Fingerprint of(byte[] body) {
    try {
      return new Fingerprint(
          ByteString.copyFrom(MessageDigest.getInstance("SHA-256").digest(body)));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  /**
   * A digest that the producer has made.
   *
   * @param digest 1 to 64 bytes
   * @return the fingerprint
   * @throws InvalidFieldException where it has another length
   */
  public static Fingerprint ofDigest(byte[] digest) {
    if (digest.length < 1 || digest.length > 64) {
      throw new InvalidFieldException(
          "fingerprint", "must be 1 to 64 bytes; Fingerprint.of makes it of the raw body");
    }
    return new Fingerprint(ByteString.copyFrom(digest));
  }

  ByteString digest() {
    return digest;
  }
}
