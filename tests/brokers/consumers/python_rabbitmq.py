"""A consumer of RabbitMQ."""

import asyncio

import aio_pika
import handler
from idempotency_ledger import AsyncLedger
from idempotency_ledger.brokers.rabbitmq import QueueConsumer


async def main() -> None:
    options = handler.arguments()
    stop = handler.shutdown()
    ledger = AsyncLedger("payments", handler.connection(options))

    async def pay(claim, message):
        for seconds in handler.effect(options, claim, message.body):
            await asyncio.sleep(seconds)
        return b"done"

    async with await aio_pika.connect(options.broker) as connection:
        await QueueConsumer(ledger, connection, "orders", pay, concurrency=4).run(stop)
        await ledger.close()


asyncio.run(main())
