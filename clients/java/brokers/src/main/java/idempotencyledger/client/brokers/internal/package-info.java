/** How the adapters process deliveries; not an interface for applications, and it may change. */
package idempotencyledger.client.brokers.internal;
