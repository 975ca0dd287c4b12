// What the consumers of Kafka share.
import { TopicConsumer } from '@idempotency-ledger/client/kafka';
import { broker, ledger, paid, stop, waitMs } from './handler.mjs';

/** Consumes; `retries` is the topic of messages that come later; without one their partitions wait. */
export async function consume(retries) {
  await new TopicConsumer({
    ledger,
    kafka: { bootstrapBrokers: [broker] },
    topic: 'orders',
    retries,
    handler: (claim, message) => paid(claim, message.value),
    membership: { sessionTimeout: waitMs, rebalanceTimeout: Math.max(10_000, waitMs), heartbeatInterval: 250 },
    concurrency: 4,
  }).run(stop.signal);
  await ledger.close();
}
