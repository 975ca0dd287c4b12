package idempotencyledger.client;

import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;

/** Checks texts before they are sent. */
final class Texts {
  private Texts() {}

  /**
   * The text, if it may be a part of a key: 1 to {@code most} bytes of UTF-8, no control
   * characters.
   */
  static String checked(String field, String text, int most) {
    if (text == null) {
      throw new InvalidFieldException(field, "must not be null");
    }
    int size = size(field, text);
    if (size < 1 || size > most) {
      throw new InvalidFieldException(
          field, "has " + size + " bytes of UTF-8; 1 to " + most + " are allowed");
    }
    if (text.chars().anyMatch(Character::isISOControl)) {
      throw new InvalidFieldException(field, "has a control character");
    }
    return text;
  }

  private static int size(String field, String text) {
    try {
      return StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text)).remaining();
    } catch (CharacterCodingException e) {
      throw new InvalidFieldException(field, "is not valid Unicode: it has a lone surrogate");
    }
  }
}
