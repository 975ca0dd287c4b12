"""A consumer of a queue that speaks the protocol of SQS."""

import boto3
import handler
from idempotency_ledger import Ledger
from idempotency_ledger.brokers.sqs import SqsConsumer

options = handler.arguments()
stop = handler.shutdown()
client = boto3.client("sqs", endpoint_url=options.broker, region_name="eu-central-1",
                      aws_access_key_id="test", aws_secret_access_key="test")
queue, dead = (client.get_queue_url(QueueName=name)["QueueUrl"] for name in ("orders", "dead.fifo"))
with Ledger("payments", handler.connection(options)) as ledger:
    SqsConsumer(ledger, client, queue, lambda claim, message: handler.paid(options, claim, message["Body"].encode()),
                visibility=round(handler.wait()), dead_letters=dead, concurrency=4).run(stop)
