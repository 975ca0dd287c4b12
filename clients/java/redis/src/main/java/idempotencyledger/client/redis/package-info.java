/** Redis Streams: a consumer group whose entries are each processed once. */
package idempotencyledger.client.redis;
