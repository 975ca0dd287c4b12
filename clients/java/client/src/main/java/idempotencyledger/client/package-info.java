/**
 * A client of the idempotency ledger: each message of a broker, and each request, is processed
 * once. {@link idempotencyledger.client.Ledger#process} is the whole API for most programs.
 */
package idempotencyledger.client;
