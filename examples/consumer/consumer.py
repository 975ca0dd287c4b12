"""A consumer of CloudEvents on NATS JetStream that processes each message once.

SIGTERM or SIGINT stops it in good order: it takes no new message, lets the running effect end, settles
it and exits with 0. A second signal ends it at once, and so does the end of --drain, with 1.
"""

import argparse
import asyncio
import hashlib
import json
import os
import pathlib
import signal
import socket
import sys

import grpc
import nats
from nats.js.api import ConsumerConfig

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import faults
from protocol import NotDone, handle
from reach import channel
from sinks import Sinks
from stubs import pb, rpc

OWNER = f"{socket.gethostname()}/{os.getpid()}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nats", default="nats://127.0.0.1:4222")
    parser.add_argument("--ledger", default="127.0.0.1:50051")
    parser.add_argument("--consumer", default="payments", help="the ledger's consumer; its subject is events.CONSUMER")
    parser.add_argument("--replay-run", default="", help="the replay run that all messages belong to: see docs/replays.md")
    parser.add_argument("--sinks", default="sinks.db")
    # Longer than lease (30 s) and grace (1 s) of the default policy: the delivery after a crash is granted at once.
    # A shorter one does no harm: it is answered `in_progress`, and waits for what remains of both.
    parser.add_argument("--ack-wait", type=float, default=35.0,
                        help="seconds until the broker delivers again; best longer than lease and grace together")
    parser.add_argument("--drain", type=float, default=15.0, help="seconds that a running effect has to end")
    parser.add_argument("--announce", action="store_true", help="announce each effect before it starts")
    parser.add_argument("--repeat-announced", action="store_true",
                        help="process also where an earlier attempt had announced its effect")
    return parser.parse_args()


async def process(event, claim, sinks):
    """The effect. It must not block the loop: signals would wait for it.

    Where it is rows in your own SQL database, examples/guard lets it happen once."""
    await faults.point("before effect", event["id"])
    if event["type"] == "poison" or (event["type"] == "flaky" and claim.attempt == 1):
        raise NotDone("this message cannot be processed")
    sinks.plain(event["id"])
    await faults.point("amid effect", event["id"])
    sinks.fenced(event["id"], claim.token)
    sinks.deduplicating(event["id"], claim.idempotency_key)
    await faults.point("after effect", event["id"])
    return b"done"


async def consume(inbox, deliver, stop):
    """Handles one message after the other until it is told to stop."""
    while not stop.is_set():
        try:
            messages = await inbox.fetch(1, timeout=1)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            if stop.is_set():
                await message.nak()  # nothing was done with it: another process may have it at once
            else:
                await deliver(message)


def on_signals(stop):
    """The first signal asks to stop; a second one ends the process, whatever it is doing."""
    loop = asyncio.get_running_loop()

    def first():
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        print(f"{OWNER} stops", flush=True)
        stop.set()

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, first)


async def main():
    options = arguments()
    sinks = Sinks(options.sinks)
    broker = await nats.connect(options.nats)
    stream = broker.jetstream()
    ledger = rpc.LedgerServiceStub(channel(options.ledger, grpc.aio))

    async def dead_letter(message):
        # The id lets the broker drop a second copy, should this process die before the ack. It names this message
        # of the broker, not the event: a replay that is dead-lettered again is not dropped.
        header = {"Nats-Msg-Id": f"{options.consumer}/{message.metadata.sequence.stream}"}
        await stream.publish(f"dead.{options.consumer}", message.data, headers=header)
        await message.ack()

    async def deliver(message):
        """Decides about the broker's message, after the ledger has."""
        try:
            event = json.loads(message.data)
            key = pb.EntryKey(consumer=options.consumer, source=event["source"], id=event["id"],
                              replay_run=options.replay_run)
        except (ValueError, KeyError, TypeError):  # no CloudEvent, so there is nothing to ask the ledger for
            return await dead_letter(message)
        claim_request = pb.ClaimRequest(key=key, owner=OWNER, fingerprint=hashlib.sha256(message.data).digest())
        advice, wait = await handle(
            ledger, claim_request, lambda claim: process(event, claim, sinks),
            announce=options.announce, repeat_announced=options.repeat_announced)
        await faults.point("before ack", event["id"])
        if advice == pb.ADVICE_ACK:
            await message.ack()
        elif advice == pb.ADVICE_DEAD_LETTER:
            await dead_letter(message)
        else:  # RETRY_LATER, and whatever a newer server may say
            await message.nak(delay=max(wait, 0.05))

    config = ConsumerConfig(ack_wait=options.ack_wait, max_deliver=-1)
    inbox = await stream.pull_subscribe(f"events.{options.consumer}", durable=options.consumer, config=config)
    stop = asyncio.Event()
    on_signals(stop)
    print(f"{OWNER} consumes", flush=True)
    consuming, stopping = asyncio.create_task(consume(inbox, deliver, stop)), asyncio.create_task(stop.wait())
    await asyncio.wait({consuming, stopping}, return_when=asyncio.FIRST_COMPLETED)
    # It is waited for, never cancelled.
    await asyncio.wait({consuming}, timeout=options.drain)
    if not consuming.done():
        print(f"{OWNER} ends amid an effect, after {options.drain} s: its lease ends by itself", flush=True)
        os._exit(1)
    consuming.result()
    await broker.flush()
    await broker.close()


if __name__ == "__main__":
    asyncio.run(main())
