"""The bridge from NATS JetStream to a handler."""

import bridged

bridged.become({"nats-url": "{broker}", "nats-stream": "ORDERS", "nats-consumer": "payments", "nats-dead-letter-subject": "dead"})
