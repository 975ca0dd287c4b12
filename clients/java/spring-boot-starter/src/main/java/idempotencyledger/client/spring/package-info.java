/**
 * Spring Boot: a ledger's client by properties, {@code @Idempotent} methods, and {@code
 * Idempotency-Key}.
 */
package idempotencyledger.client.spring;
