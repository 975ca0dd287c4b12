"""Real brokers, each started for one run: what a producer sends, what is not acknowledged yet, and the dead letters."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import uuid
from typing import Any

from running import ROOT, Running, free_port, wait_for

STRUCTURED = "application/cloudevents+json"
# Attributes of a structured event among its headers, the same for all messages: what counts is in the body.
MISLEADING = {"id": "one", "source": "headers"}
Event = dict[str, Any]


class Broker:
    """`needs`: its programs. `every`: seconds between two faults. `portions`: a consumer is killed after each but the last.

    `restarts`: it can be killed and started again.
    """

    name, needs = "", ()
    every, portions, restarts = 0.3, 1, False


class Redis(Broker):
    name, needs = "redis", ("redis-server",)

    def __init__(self, running: Running) -> None:
        import redis

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

    def __init__(self, running: Running) -> None:
        port = free_port()
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
        await stream.add_consumer("ORDERS", ConsumerConfig(durable_name="payments", ack_policy="explicit", ack_wait=2,
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

    def __init__(self, running: Running) -> None:
        port = free_port()
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

    name, needs = "sqs", ()
    portions = 3
    names = ("orders", "dead.fifo")

    def __init__(self, running: Running) -> None:
        import boto3

        port = free_port()
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


class Kafka(Broker):
    """One node that is broker and controller. What it has stored outlives `kill`; `start` serves it again."""

    name, needs = "kafka", ("javac", "mvn")
    # A group waits a second for each member that was killed before its partitions have an owner again.
    every, portions, restarts = 1.5, 3, True
    partitions = {"orders": 4, "orders.retry": 2, "orders.dead": 1}

    def __init__(self, running: Running) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.running = running
        self.folder = running.path / "broker"
        data = self.folder / "data"
        data.mkdir(parents=True)
        port, controller = free_port(), free_port()
        self.url = f"127.0.0.1:{port}"
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # What `kafka-storage.sh format` writes, without a second JVM.
        (data / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
        properties = {
            "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.url},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.url}", "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT", "log.dirs": data,
            # A node that was killed may register again as soon as its former session is over.
            "broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 500,
            # A group forms without a pause, and notices within a second that a consumer was killed.
            "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500,
            "auto.create.topics.enable": "false", "offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1, "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1, "num.network.threads": 1, "num.io.threads": 2,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
        }
        (self.folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.start()
        topics = [NewTopic(name, count, 1) for name, count in self.partitions.items()]
        self.client = {"bootstrap.servers": self.url, "log_level": 3}
        admin = AdminClient(self.client)
        # A page makes its topics itself.
        for made in admin.create_topics(topics).values() if topics else ():
            made.result(30)

    def start(self) -> None:
        """Starts the node over what it has stored, and waits until it serves."""
        ready = "Kafka Server started"
        before = self.running.log("broker").count(ready) if (self.running.path / "broker.log").exists() else 0
        # Few threads of the compiler and the collector: the consumers share the processors with it.
        self.process = self.running.start(
            "broker", java(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", kafka_classpath(),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",
            "kafka.Kafka", self.folder / "server.properties", cwd=self.folder)

        def started() -> bool:
            assert self.process.poll() is None, f"Kafka ended: {self.running.log('broker')[-3000:]}"
            return self.running.log("broker").count(ready) > before

        wait_for("Kafka serves", started, seconds=90)

    def kill(self) -> None:
        """Ends the node as a power cut of the process would: nothing is written any more."""
        self.process.kill()
        self.process.wait()

    def publish(self, events: list[Event]) -> None:
        from confluent_kafka import Producer

        producer = Producer({**self.client, "acks": "all"})
        failed: list[object] = []
        for number, event in enumerate(events):
            producer.produce("orders", json.dumps(event).encode(), partition=number % self.partitions["orders"],
                             headers=[(name, value.encode()) for name, value in
                                      {"content-type": STRUCTURED, **misleading("ce_")}.items()],
                             on_delivery=lambda error, _: failed.append(error) if error else None)
        assert producer.flush(60) == 0 and not failed, f"not published: {failed}"

    def _places(self, *topics: str) -> list[Any]:
        from confluent_kafka import TopicPartition

        return [TopicPartition(topic, number) for topic in topics for number in range(self.partitions[topic])]

    def _consumer(self, group: str) -> Any:
        from confluent_kafka import Consumer

        return Consumer({**self.client, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})

    def left(self) -> int:
        group, count = self._consumer("payments"), 0
        for place in group.committed(self._places("orders", "orders.retry"), timeout=30):
            first, end = group.get_watermark_offsets(place, timeout=30)
            # A partition of which nothing is committed has a negative offset.
            count += end - max(place.offset, first)
        group.close()
        return count

    def dead(self) -> list[str]:
        inbox, found = self._consumer("dead"), []
        places = self._places("orders.dead")
        inbox.assign(places)
        count = sum(inbox.get_watermark_offsets(place, timeout=30)[1] for place in places)
        while len(found) < count:
            message = inbox.poll(30)
            assert message is not None and message.error() is None, f"a dead letter cannot be read: {message and message.error()}"
            found.append(json.loads(message.value()).get("id"))
        inbox.close()
        return found


def misleading(prefix: str) -> dict[str, str]:
    """The attributes of MISLEADING as headers of a binding of CloudEvents."""
    return {prefix + name: value for name, value in MISLEADING.items()}


def java() -> str:
    """The `java` of the JDK that tests/lib/clients/java.sh has chosen, else that of the PATH."""
    home = os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else "java"


def kafka_classpath() -> str:
    """The jars of the server; Maven fetches those that are missing, and is asked again when the pom changes."""
    pom = pathlib.Path(__file__).resolve().parent / "kafka" / "pom.xml"
    cached = ROOT / "target" / "brokers" / "kafka"
    stamp, classpath = cached / "pom.xml", cached / "classpath"
    if stamp.exists() and stamp.read_bytes() == pom.read_bytes():
        found = classpath.read_text()
        if all(pathlib.Path(jar).exists() for jar in found.split(os.pathsep)):
            return found
    cached.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mvn", "-B", "-q", "-Dstyle.color=never", "-f", str(pom), "dependency:build-classpath",
                    f"-Dmdep.outputFile={classpath}"],
                   check=True)
    shutil.copyfile(pom, stamp)
    return classpath.read_text()


BROKERS = {broker.name: broker for broker in (Nats, Redis, RabbitMq, Sqs, Kafka)}

