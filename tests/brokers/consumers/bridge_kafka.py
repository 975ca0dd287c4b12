"""The bridge from Kafka to a handler."""

import os

import bridged

bridged.become({"kafka-brokers": "{broker}", "kafka-topic": "orders", "kafka-session-timeout": f"{os.environ['BROKER_WAIT']}s"})
