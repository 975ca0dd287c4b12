/** RabbitMQ: a queue whose messages are each processed once. */
package idempotencyledger.client.rabbitmq;
