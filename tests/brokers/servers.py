"""Real brokers, each started for one run: what a producer sends, what is not acknowledged yet, and the dead letters."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Any

from broker import STRUCTURED, Broker, Event, misleading
from kafka_server import Kafka
from running import free_port, wait_for


class Redis(Broker):
    name, needs = "redis", ("redis-server",)

    def _start(self) -> None:
        import redis

        running = self.running
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        running.start("broker", "redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", running.path,
                      "--appendonly", "yes", "--appendfsync", "always", "--save", "")
        self.client = redis.Redis.from_url(self.url)
        wait_for("Redis listens", self._answers)
        self.client.xgroup_create("orders", "payments", id="0", mkstream=True)

    def _answers(self) -> bool:
        import redis

        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False

    def publish(self, events: list[Event]) -> None:
        for event in events:
            self.client.xadd("orders", {"content-type": STRUCTURED, **misleading("ce-"), "data": json.dumps(event)})

    def left(self) -> int:
        group = self.client.xinfo_groups("orders")[0]
        return group["pending"] + (group["lag"] or 0)

    def dead(self) -> list[str]:
        return [json.loads(fields[b"data"]).get("id") for _, fields in self.client.xrange("orders:dead")]


class Nats(Broker):
    name, needs = "nats", ("nats-server",)

    def _start(self) -> None:
        running, port = self.running, free_port()
        self.url = f"nats://127.0.0.1:{port}"
        running.start("broker", "nats-server", "-js", "-a", "127.0.0.1", "-p", port, "-sd", running.path / "broker")
        wait_for("NATS listens", lambda: "Server is ready" in running.log("broker"))
        asyncio.run(self._ask(self._made))

    async def _ask(self, ask: Any) -> Any:
        import nats

        broker = await nats.connect(self.url)
        try:
            return await ask(broker.jetstream())
        finally:
            await broker.close()

    async def _made(self, stream: Any) -> None:
        from nats.js.api import ConsumerConfig, StreamConfig

        await stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders"]))
        await stream.add_stream(StreamConfig(name="DEAD", subjects=["dead"]))
        await stream.add_consumer("ORDERS", ConsumerConfig(durable_name="payments", ack_policy="explicit", ack_wait=self.wait,
                                                           max_deliver=-1))

    def publish(self, events: list[Event]) -> None:
        async def publish(stream: Any) -> None:
            for event in events:
                headers = {"Content-Type": STRUCTURED, **misleading("ce-")}
                await stream.publish("orders", json.dumps(event).encode(), headers=headers)

        asyncio.run(self._ask(publish))

    def left(self) -> int:
        async def left(stream: Any) -> int:
            info = await stream.consumer_info("ORDERS", "payments")
            return info.num_pending + info.num_ack_pending

        return asyncio.run(self._ask(left))

    def dead(self) -> list[str]:
        async def dead(stream: Any) -> list[str]:
            inbox = await stream.subscribe("dead", ordered_consumer=True)
            count = (await stream.stream_info("DEAD")).state.messages
            return [json.loads((await inbox.next_msg(timeout=5)).data).get("id") for _ in range(count)]

        return asyncio.run(self._ask(dead))


class RabbitMq(Broker):
    name, needs = "rabbitmq", ("rabbitmq-server",)

    def _start(self) -> None:
        running, port = self.running, free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{port}/"
        folder = running.path / "broker"
        folder.mkdir()
        # A node beside any other one of this machine: it has a separate name, folder, cookie and ports.
        environment = {
            **os.environ, "HOME": str(folder), "RABBITMQ_NODENAME": f"ledger-{port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1", "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()), "RABBITMQ_BASE": str(folder), "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"), "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"), "RABBITMQ_LOGS": "-", "RABBITMQ_PID_FILE": str(folder / "pid"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        # Debian's wrapper would change to the user rabbitmq, who cannot write here.
        program = "/usr/lib/rabbitmq/bin/rabbitmq-server"
        running.start("broker", program if os.path.exists(program) else "rabbitmq-server", environment=environment, cwd=folder)
        wait_for("RabbitMQ listens", lambda: "Server startup complete" in running.log("broker"), seconds=90)
        asyncio.run(self._ask(self._made))

    async def _ask(self, ask: Any) -> Any:
        import aio_pika

        async with await aio_pika.connect(self.url) as connection:
            return await ask(await connection.channel(publisher_confirms=True))

    def end(self) -> None:
        """The script that was started is not the node."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(int((self.running.path / "broker" / "pid").read_text()), signal.SIGKILL)

    async def _made(self, channel: Any) -> None:
        for queue in ("orders", "orders.dead"):
            await channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})

    def publish(self, events: list[Event]) -> None:
        async def publish(channel: Any) -> None:
            from aio_pika import DeliveryMode, Message

            for event in events:
                message = Message(json.dumps(event).encode(), content_type=STRUCTURED, headers=misleading("cloudEvents:"),
                                  delivery_mode=DeliveryMode.PERSISTENT)
                await channel.default_exchange.publish(message, routing_key="orders")

        asyncio.run(self._ask(publish))

    def left(self) -> int:
        async def left() -> int:
            import aio_pika

            count = 0
            async with await aio_pika.connect(self.url) as connection:
                for queue in ("orders", *(f"orders.later.{seconds}s" for seconds in (1, 2, 5, 10, 30, 60, 300, 900))):
                    # The channel is closed where there is no such queue.
                    channel = await connection.channel()
                    try:
                        found = await channel.declare_queue(queue, passive=True)
                    except aio_pika.exceptions.ChannelNotFoundEntity:
                        continue
                    # It counts what is ready, not what consumers hold: `run` asks when they have ended.
                    count += found.declaration_result.message_count
                    await channel.close()
            return count

        return asyncio.run(left())

    def dead(self) -> list[str]:
        async def dead(channel: Any) -> list[str]:
            queue = await channel.declare_queue("orders.dead", passive=True)
            found = []
            while (message := await queue.get(fail=False)) is not None:
                found.append(json.loads(message.body).get("id"))
            return found

        return asyncio.run(self._ask(dead))


class Sqs(Broker):
    """The queue of dead letters is a FIFO queue: it refuses a copy without a group."""

    name, needs, portions = "sqs", (), 3
    names = ("orders", "dead.fifo")

    def _start(self) -> None:
        import boto3

        running, port = self.running, free_port()
        self.url = f"http://127.0.0.1:{port}"
        running.start("broker", sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port)
        wait_for("the server of SQS listens", lambda: "Running on" in running.log("broker"), seconds=60)
        self.client = boto3.client("sqs", endpoint_url=self.url, region_name="eu-central-1",
                                   aws_access_key_id="test", aws_secret_access_key="test")
        self.queues = {name: self._made(name) for name in self.names}

    def _made(self, name: str) -> str:
        kind = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        return self.client.create_queue(QueueName=name, Attributes=kind)["QueueUrl"]

    def publish(self, events: list[Event]) -> None:
        attributes = {name: {"DataType": "String", "StringValue": value}
                      for name, value in {"content-type": STRUCTURED, **misleading("ce-")}.items()}
        entries = [{"Id": str(number), "MessageBody": json.dumps(event), "MessageAttributes": attributes}
                   for number, event in enumerate(events)]
        # In tens, as many as SQS takes: one by one the server is slower than the consumers, and none is killed in time.
        for first in range(0, len(entries), 10):
            answer = self.client.send_message_batch(QueueUrl=self.queues["orders"], Entries=entries[first:first + 10])
            assert not answer.get("Failed"), f"not published: {answer['Failed']}"

    def left(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"]
        found = self.client.get_queue_attributes(QueueUrl=self.queues["orders"], AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)

    def dead(self) -> list[str]:
        found: list[str] = []
        queue = self.queues["dead.fifo"]
        while messages := self.client.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                found.append(json.loads(message["Body"]).get("id"))
                # A message that is received and not deleted holds up those of its group.
                self.client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return found


BROKERS = {broker.name: broker for broker in (Nats, Redis, RabbitMq, Sqs, Kafka)}

