/**
 * A Servlet filter for the header {@code Idempotency-Key}: a repeated request gets the first
 * answer, and has one effect.
 */
package idempotencyledger.client.servlet;
