"""A consumer of CloudEvents on NATS JetStream that processes each message once.

    pip install "idempotency-ledger-client[nats]"

SIGTERM or SIGINT stops it in good order: it takes no new message, lets the running effect end, settles it and exits with
0. A second signal ends it immediately, and so does the end of --drain, with 1.
"""

import argparse
import asyncio
import json
import os
import socket

import nats
from nats.js.api import ConsumerConfig

import faults
from idempotency_ledger import AsyncLedger, Connection, Retry, Shutdown
from idempotency_ledger.brokers import cloud_event
from idempotency_ledger.brokers.nats import JetStreamConsumer, to_subject
from sinks import Sinks

OWNER = f"{socket.gethostname()}/{os.getpid()}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nats", default="nats://127.0.0.1:4222")
    parser.add_argument("--ledger", default=os.environ.get("LEDGER_ENDPOINT", "127.0.0.1:50051"))
    parser.add_argument("--consumer", default="payments", help="the ledger's consumer; its subject is events.CONSUMER")
    parser.add_argument("--replay-run", default="", help="the replay run that all messages belong to: see docs/replays.md")
    parser.add_argument("--sinks", default="sinks.db")
    # Longer than lease (30 s) and grace (1 s) of the default policy: the delivery after a crash is granted immediately.
    # A shorter one does no harm: it is answered `in_progress`, and waits for what remains of both.
    parser.add_argument("--ack-wait", type=float, default=35.0,
                        help="seconds until the broker delivers again; best longer than lease and grace together")
    parser.add_argument("--drain", type=float, default=15.0, help="seconds that a running effect has to end")
    parser.add_argument("--announce", action="store_true", help="announce each effect before it starts")
    parser.add_argument("--repeat-announced", action="store_true",
                        help="process also where an earlier attempt had announced its effect")
    return parser.parse_args()


async def effect(event, claim, sinks):
    """The effect. It must not block the loop: signals and renewals would wait for it.

    Where it is rows in your own SQL database, the package's guard lets it happen once."""
    await faults.point("before effect", event["id"])
    if event["type"] == "poison" or (event["type"] == "flaky" and claim.attempt == 1):
        raise Retry("this message cannot be processed")
    sinks.plain(event["id"])
    await faults.point("amid effect", event["id"])
    sinks.fenced(event["id"], claim.token)
    sinks.deduplicating(event["id"], claim.idempotency_key)
    await faults.point("after effect", event["id"])
    return b"done"


async def reports_a_stop(stop):
    await stop.until_requested()
    print(f"{OWNER} stops", flush=True)


async def main():
    options = arguments()
    sinks = Sinks(options.sinks)
    stop = Shutdown(grace=options.drain)
    stopping = asyncio.ensure_future(reports_a_stop(stop))
    broker = await nats.connect(options.nats)
    stream = broker.jetstream()
    ledger = AsyncLedger(options.consumer, Connection(options.ledger), repeat_announced=options.repeat_announced,
                         ack_wait=options.ack_wait)

    async def pay(claim, message):
        if options.announce:
            await claim.announce()
        return await effect(json.loads(message.data), claim, sinks)

    # max_deliver: the ledger's policy bounds the attempts; JetStream would drop a message that was only postponed.
    config = ConsumerConfig(ack_wait=options.ack_wait, max_deliver=-1)
    inbox = await stream.pull_subscribe(f"events.{options.consumer}", durable=options.consumer, config=config)
    faults.before_acks()
    print(f"{OWNER} consumes", flush=True)
    await JetStreamConsumer(
        ledger, inbox, pay, named=lambda message: cloud_event(message.headers, message.data, options.replay_run),
        dead_letter=to_subject(stream, f"dead.{options.consumer}")).run(stop)
    await ledger.close()
    await broker.flush()
    await broker.close()
    stopping.cancel()


if __name__ == "__main__":
    asyncio.run(main())
