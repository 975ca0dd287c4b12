package idempotencyledger.client.servlet;

import java.util.List;

/**
 * An answer of HTTP.
 *
 * @param status the status
 * @param headers the headers, in their order
 * @param body the body; no bytes where there is none
 */
public record Answer(int status, List<Header> headers, byte[] body) {
  /**
   * A header.
   *
   * @param name its name in lower case
   * @param value its value
   */
  public record Header(String name, String value) {}

  /**
   * Makes an answer.
   *
   * @param status the status
   * @param headers the headers, in their order
   * @param body the body; no bytes where there is none
   */
  public Answer {
    headers = List.copyOf(headers);
  }
}
