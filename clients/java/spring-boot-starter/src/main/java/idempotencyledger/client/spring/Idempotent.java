package idempotencyledger.client.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * A method that is called once for each key: a repeated call returns the first one's value.
 *
 * <p>The method throws what it throws; whether a repeat runs again is said by its error, as in
 * {@link idempotencyledger.client.Handler#handle}. A call without a value to return, such as one
 * whose first attempt still runs, throws {@link idempotencyledger.client.NoResultException}. A
 * parameter of the type {@link idempotencyledger.client.Claim} is given the claim, whatever the
 * caller passes there.
 *
 * <p>A transaction of {@code @Transactional} is within the call, so that it is committed before the
 * call is completed. A method that returns a {@link java.util.concurrent.Future} or a {@link
 * java.util.concurrent.CompletionStage} is refused with {@link
 * idempotencyledger.client.InvalidFieldException}: its work may still run when it returns. As with
 * all proxies of Spring, a call within the same object is not intercepted.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Idempotent {
  /**
   * The id of a call.
   *
   * @return an expression of Spring over the parameters, such as {@code #order.id}; its value as
   *     text has 1 to 512 bytes
   */
  String key();

  /**
   * The source of the ids.
   *
   * @return a text of 1 to 256 bytes; by default the simple name of the class, a dot, and the name
   *     of the method
   */
  String source() default "";

  /**
   * What must be the same in a repeat.
   *
   * @return an expression over the parameters whose value is the raw bytes; by default nothing is
   *     compared
   */
  String body() default "";

  /**
   * How long a call waits at most while another one with its key runs.
   *
   * @return a duration such as {@code 5s}; by default it does not wait
   */
  String maxWait() default "0s";
}
