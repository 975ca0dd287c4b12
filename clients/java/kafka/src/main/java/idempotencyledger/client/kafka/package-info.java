/** Kafka: a topic whose messages are each processed once. */
package idempotencyledger.client.kafka;
