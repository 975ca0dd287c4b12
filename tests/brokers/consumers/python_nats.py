"""A consumer of NATS JetStream."""

import asyncio

import handler
import nats
from idempotency_ledger import AsyncLedger
from idempotency_ledger.brokers.nats import JetStreamConsumer, to_subject
from nats.js.api import ConsumerConfig


async def main() -> None:
    options = handler.arguments()
    stop = handler.shutdown()
    ledger = AsyncLedger("payments", handler.connection(options))

    async def pay(claim, message):
        for seconds in handler.effect(options, claim, message.data):
            await asyncio.sleep(seconds)
        return b"done"

    broker = await nats.connect(options.broker)
    stream = broker.jetstream()
    config = ConsumerConfig(ack_wait=handler.wait(), max_deliver=-1)
    inbox = await stream.pull_subscribe("orders", durable="payments", config=config)
    await JetStreamConsumer(ledger, inbox, pay, dead_letter=to_subject(stream, "dead"), concurrency=4).run(stop)
    await ledger.close()
    await broker.close()


asyncio.run(main())
