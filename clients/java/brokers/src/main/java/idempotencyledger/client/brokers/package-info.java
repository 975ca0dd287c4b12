/**
 * What the adapters for brokers share: the name of a delivery. An adapter is an artifact of its
 * own, such as {@code idempotency-ledger-kafka}; this one depends on no broker's client.
 */
package idempotencyledger.client.brokers;
