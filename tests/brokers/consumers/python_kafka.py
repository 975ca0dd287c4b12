"""A consumer of Kafka: a message that comes later stops its partition."""

import handler
from idempotency_ledger import Ledger
from idempotency_ledger.brokers.kafka import TopicConsumer

options = handler.arguments()
stop = handler.shutdown()
with Ledger("payments", handler.connection(options)) as ledger:
    TopicConsumer(
        ledger, {"bootstrap.servers": options.broker}, "orders",
        lambda claim, message: handler.paid(options, claim, message.value()),
        consumer={"session.timeout.ms": int(1000 * handler.wait()), "heartbeat.interval.ms": 250}, concurrency=4).run(stop)
