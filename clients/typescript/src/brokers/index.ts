/**
 * What the consumers of all brokers share: the name of a delivery. It needs no broker's client.
 *
 * Each broker has its own entry: `nats`, `rabbitmq`, `sqs`. Its consumer takes deliveries until it is asked to stop, processes each once by
 * `Ledger.process`, and turns the outcome into the broker's words.
 *
 * @packageDocumentation
 */
export { type Named, NoId, namedByCloudEvent } from './name.js';
export { type ConsumerOptions, STORE } from './pool.js';
