"""A consumer of Kafka that copies a message that comes later to a topic: its partition goes on."""

import handler
from idempotency_ledger import Ledger
from idempotency_ledger.brokers.kafka import TopicConsumer

options = handler.arguments()
stop = handler.shutdown()
with Ledger("payments", handler.connection(options)) as ledger:
    TopicConsumer(
        ledger, {"bootstrap.servers": options.broker}, "orders",
        lambda claim, message: handler.paid(options, claim, message.value()),
        consumer={"session.timeout.ms": int(1000 * handler.wait()), "heartbeat.interval.ms": 250}, retries="orders.retry",
        concurrency=4).run(stop)
