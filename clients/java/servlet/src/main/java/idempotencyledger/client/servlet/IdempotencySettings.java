package idempotencyledger.client.servlet;

import idempotencyledger.client.InvalidFieldException;
import jakarta.servlet.http.HttpServletRequest;
import java.time.Duration;
import java.util.Locale;
import java.util.Set;
import java.util.function.Function;
import java.util.function.IntFunction;
import java.util.stream.Collectors;

/**
 * The settings of {@link IdempotencyFilter}. Each has a default. A settings object that a filter
 * has is not changed any more.
 */
public final class IdempotencySettings {
  private Function<HttpServletRequest, String> tenant = request -> "";
  private Function<HttpServletRequest, String> route;
  private Set<String> methods = Set.of("POST", "PATCH");
  private boolean required = true;
  private Duration wait = Duration.ofSeconds(5);
  private IntFunction<Rule> rule = Rule::of;
  private Set<String> keptHeaders = Set.of("content-type", "content-encoding", "location");
  private int bodyMax = 1 << 20;
  private int resultMax = 16_384;
  private int answerMax = 8 << 20;
  private Function<HttpServletRequest, Answer> reread;

  /** The defaults. */
  public IdempotencySettings() {}

  /**
   * Whose key it is: keys of two tenants never meet.
   *
   * @param tenant the tenant of a request, never null: such a request fails, since its key might be
   *     another tenant's; by default there is one for all
   * @return this
   */
  public IdempotencySettings tenant(Function<HttpServletRequest, String> tenant) {
    this.tenant = tenant;
    return this;
  }

  /**
   * The route of a request. Give it wherever paths have ids, such as {@code /orders/123}: each
   * source is stored for ever.
   *
   * @param route such as {@code /orders/{id}}; by default the path
   * @return this
   */
  public IdempotencySettings route(Function<HttpServletRequest, String> route) {
    this.route = route;
    return this;
  }

  /**
   * The methods whose requests need a key.
   *
   * @param methods by default POST and PATCH
   * @return this
   */
  public IdempotencySettings methods(Set<String> methods) {
    this.methods = Set.copyOf(methods);
    return this;
  }

  /**
   * Whether a request without a key is refused, rather than passed on without protection.
   *
   * @param required by default true
   * @return this
   */
  public IdempotencySettings required(boolean required) {
    this.required = required;
    return this;
  }

  /**
   * How long to wait while the first request is not done.
   *
   * @param wait 0 s to an hour, by default 5 s; the server bounds it further
   * @return this
   */
  public IdempotencySettings wait(Duration wait) {
    this.wait = wait;
    return this;
  }

  /**
   * What an answer's status says of the effect.
   *
   * @param rule by default {@link Rule#of}
   * @return this
   */
  public IdempotencySettings rule(IntFunction<Rule> rule) {
    this.rule = rule;
    return this;
  }

  /**
   * The headers that are stored with an answer.
   *
   * @param keptHeaders by default Content-Type, Content-Encoding and Location
   * @return this
   */
  public IdempotencySettings keptHeaders(Set<String> keptHeaders) {
    this.keptHeaders =
        keptHeaders.stream()
            .map(name -> name.toLowerCase(Locale.ROOT))
            .collect(Collectors.toUnmodifiableSet());
    return this;
  }

  /**
   * The largest body of a request; a larger one is answered 413.
   *
   * @param bodyMax bytes, by default 1 MiB
   * @return this
   * @throws InvalidFieldException where it is negative or 2 GiB
   */
  public IdempotencySettings bodyMax(int bodyMax) {
    this.bodyMax = checked("body_max", bodyMax);
    return this;
  }

  /**
   * The largest answer that is stored with its body.
   *
   * @param resultMax bytes, by default 16,384: at most the ledger's {@code result_bytes_max}
   * @return this
   * @throws InvalidFieldException where it is negative or 2 GiB
   */
  public IdempotencySettings resultMax(int resultMax) {
    this.resultMax = checked("result_max", resultMax);
    return this;
  }

  /**
   * The largest answer that is held in memory. Of a larger one only status and headers are sent.
   *
   * @param answerMax bytes, by default 8 MiB
   * @return this
   * @throws InvalidFieldException where it is negative or 2 GiB
   */
  public IdempotencySettings answerMax(int answerMax) {
    this.answerMax = checked("answer_max", answerMax);
    return this;
  }

  /**
   * Makes the answer to a repeat whose body was not stored. Without it such a repeat gets status
   * and headers, and {@code Idempotency-Body: omitted}.
   *
   * @param reread reads the answer again, without an effect
   * @return this
   */
  public IdempotencySettings reread(Function<HttpServletRequest, Answer> reread) {
    this.reread = reread;
    return this;
  }

  private static int checked(String field, int bytes) {
    if (bytes < 0 || bytes == Integer.MAX_VALUE) {
      throw new InvalidFieldException(field, bytes + " bytes are not within 0 and 2 GiB");
    }
    return bytes;
  }

  Function<HttpServletRequest, String> tenant() {
    return tenant;
  }

  Function<HttpServletRequest, String> route() {
    return route;
  }

  Set<String> methods() {
    return methods;
  }

  boolean required() {
    return required;
  }

  Duration longestWait() {
    return wait;
  }

  IntFunction<Rule> rule() {
    return rule;
  }

  Set<String> keptHeaders() {
    return keptHeaders;
  }

  int bodyMax() {
    return bodyMax;
  }

  int resultMax() {
    return resultMax;
  }

  int answerMax() {
    return answerMax;
  }

  Function<HttpServletRequest, Answer> reread() {
    return reread;
  }
}
