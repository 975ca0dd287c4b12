"""The bridge from Kafka to a handler."""

import bridged

bridged.become({"kafka-brokers": "{broker}", "kafka-topic": "orders", "kafka-session-timeout": "1s"})
