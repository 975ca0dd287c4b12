"""A consumer of Redis Streams."""

import handler
import redis
from idempotency_ledger import Ledger
from idempotency_ledger.brokers.redis import StreamConsumer

options = handler.arguments()
stop = handler.shutdown()
with Ledger("payments", handler.connection(options)) as ledger:
    StreamConsumer(
        ledger, redis.Redis.from_url(options.broker), "orders",
        lambda claim, fields: handler.paid(options, claim, fields[b"data"]), visibility=handler.wait(), concurrency=4).run(stop)
