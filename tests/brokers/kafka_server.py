"""Kafka: one node, from its own jars."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import uuid
from typing import Any

from broker import STRUCTURED, Broker, Event, misleading
from running import ROOT, free_port, wait_for


class Kafka(Broker):
    """One node that is broker and controller. What it has stored outlives `kill`; `start` serves it again."""

    name, needs = "kafka", ("javac", "mvn")
    # A group waits two seconds for each member that was killed before its partitions have an owner again.
    every, portions, restarts = 2.5, 3, True
    divides = True
    partitions = {"orders": 4, "orders.retry": 2, "orders.dead": 1}

    def _start(self) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        self.folder = self.running.path / "broker"
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
            "broker.session.timeout.ms": 6000, "broker.heartbeat.interval.ms": 1000,
            # A group forms without a pause, and sessions may be short.
            "group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 500,
            "auto.create.topics.enable": "false", "offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1,
            "transaction.state.log.num.partitions": 1, "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1, "num.network.threads": 1, "num.io.threads": 2,
            "log.cleaner.dedupe.buffer.size": 4 << 20,
        }
        (self.folder / "server.properties").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        self.start()
        self.client = {"bootstrap.servers": self.url, "log_level": 3}
        if self.shares:
            self.partitions = {**self.partitions, "orders": self.shares}
        topics = [NewTopic(name, count, 1) for name, count in self.partitions.items()]
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
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.coordinator.group.GroupMetadataManager=info",
            "kafka.Kafka", self.folder / "server.properties", cwd=self.folder)

        def started() -> bool:
            assert self.process.poll() is None, f"Kafka ended: {self.running.log('broker')[-3000:]}"
            return self.running.log("broker").count(ready) > before

        wait_for("Kafka serves", started, seconds=180)

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

    def _consumer(self, group: str, **more: Any) -> Any:
        from confluent_kafka import Consumer

        return Consumer({**self.client, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **more})

    def rebalance(self) -> None:
        """Forces two rebalances of the group: a member that processes nothing joins, and leaves."""
        joined: list[object] = []
        member = self._consumer("payments", **{"session.timeout.ms": 6000, "partition.assignment.strategy": "range,roundrobin"})
        member.subscribe(["orders"], on_assign=lambda *_: joined.append(True))
        until = time.monotonic() + 30
        while not joined and time.monotonic() < until:
            member.poll(0.2)
        member.close()
        assert joined, "a further member did not join the group within 30 s"

    def rebalances(self) -> int:
        """How often the group has agreed on the members and their partitions."""
        return len(re.findall(r"[Ss]tabilized group payments", self.running.log("broker")))

    def began(self) -> int:
        """How often the group has begun to rebalance."""
        return len(re.findall(r"[Pp]reparing to rebalance group payments", self.running.log("broker")))

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
