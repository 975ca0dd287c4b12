"""Publishes CloudEvents to NATS JetStream, each as often as asked: producers repeat themselves."""

import argparse
import asyncio
import datetime
import json

import nats
from nats.js.api import StreamConfig


def cloud_event(message_id, kind="payment"):
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "specversion": "1.0", "id": message_id, "source": "shop/checkout", "type": kind,
        "time": now.isoformat(), "datacontenttype": "application/json", "data": {"amount": 42},
    }


async def publish(url, events, consumer="payments"):
    """Sends the events. Copies of one event have the same body, byte for byte."""
    broker = await nats.connect(url)
    stream = broker.jetstream()
    await stream.add_stream(StreamConfig(name="EVENTS", subjects=["events.>"]))
    await stream.add_stream(StreamConfig(name="DEAD", subjects=["dead.>"]))
    for event in events:
        await stream.publish(f"events.{consumer}", json.dumps(event).encode(),
                             headers={"Content-Type": "application/cloudevents+json"})
    await broker.close()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("ids", nargs="+", help="the messages' ids")
    arguments.add_argument("--nats", default="nats://127.0.0.1:4222")
    arguments.add_argument("--copies", type=int, default=2)
    options = arguments.parse_args()
    wanted = [event for message_id in options.ids for event in [cloud_event(message_id)] * options.copies]
    asyncio.run(publish(options.nats, wanted))
    print(f"{len(wanted)} messages published")
