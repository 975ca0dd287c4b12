"""A consumer of CloudEvents on NATS JetStream that processes each message once.

It uses nothing but the generated stubs. `handle` is the whole protocol: copy it.
"""

import argparse
import asyncio
import json
import os
import pathlib
import socket
import sys
import uuid

import grpc
import nats
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from nats.js.api import ConsumerConfig

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import faults
from sinks import Sinks
from stubs import pb, rpc

CONSUMER = "payments"
OWNER = f"{socket.gethostname()}/{os.getpid()}"
# Whether these were applied is unknown, or they were not: the identical request may be repeated.
RETRY_LATER = pb.Advice.DESCRIPTOR.values_by_name["ADVICE_RETRY_LATER"]
REPEATABLE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


async def handle(ledger, message, process, dead_letter):
    """Claim, process, settle, and only then decide about the broker's message."""
    event = json.loads(message.data)
    key = pb.EntryKey(consumer=CONSUMER, source=event["source"], id=event["id"])
    wait = 1.0
    try:
        answer = await repeat(ledger.Claim, pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner=OWNER))
        advice, wait = answer.advice, seconds(answer.retry_after) or wait
        if advice == pb.ADVICE_PROCESS:
            token = answer.acquired.token
            try:
                result = await process(event, answer.acquired)
            except Exception as error:  # whatever it is, the ledger decides what comes next
                failed = await repeat(ledger.Fail, pb.FailRequest(key=key, token=token, error=type(error).__name__))
                advice, wait = failed.advice, seconds(failed.retry_after)
            else:
                advice = (await repeat(ledger.Complete, pb.CompleteRequest(key=key, token=token, result=result))).advice
    except grpc.RpcError as error:
        advice = advice_of(error)

    faults.point("before ack", event["id"])
    if advice == pb.ADVICE_ACK:
        await message.ack()
    elif advice == pb.ADVICE_DEAD_LETTER:
        await dead_letter(message, event)
        await message.ack()
    else:  # RETRY_LATER, and whatever a newer server may say
        await message.nak(delay=max(wait, 0.05))


async def repeat(call, request, tries=5):
    """Sends the identical request again where nobody knows whether it was applied."""
    for left in reversed(range(tries)):
        try:
            return await call(request, timeout=5)
        except grpc.RpcError as error:
            if error.code() not in REPEATABLE or left == 0:
                raise
            await asyncio.sleep(0.1)


def advice_of(error):
    """The advice that every error of the ledger carries; without one: retry later."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else []:
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return pb.Advice.DESCRIPTOR.values_by_name.get(f"ADVICE_{info.metadata['advice']}", RETRY_LATER).number
    return RETRY_LATER.number


def seconds(duration):
    return duration.seconds + duration.nanos / 1e9


async def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--nats", default="nats://127.0.0.1:4222")
    arguments.add_argument("--ledger", default="127.0.0.1:50051")
    arguments.add_argument("--sinks", default="sinks.db")
    arguments.add_argument("--ack-wait", type=float, default=30.0, help="seconds; longer than the lease")
    options = arguments.parse_args()

    sinks = Sinks(options.sinks)
    broker = await nats.connect(options.nats)
    stream = broker.jetstream()
    ledger = rpc.LedgerServiceStub(grpc.aio.insecure_channel(options.ledger))

    async def process(event, claim):
        faults.point("before effect", event["id"])
        if event["type"] == "poison":
            raise ValueError("this message can not be processed")
        sinks.effect(event["id"], claim.token, claim.idempotency_key)
        faults.point("after effect", event["id"])
        return b"charged"

    async def dead_letter(message, event):
        # The id lets the broker drop a second copy, should this process die before the ack.
        header = {"Nats-Msg-Id": f"{event['source']}/{event['id']}"}
        await stream.publish("dead.payments", message.data, headers=header)

    config = ConsumerConfig(ack_wait=options.ack_wait, max_deliver=-1)
    inbox = await stream.pull_subscribe("events.payments", durable=CONSUMER, config=config)
    print(f"{OWNER} consumes", flush=True)
    while True:
        try:
            messages = await inbox.fetch(1, timeout=1)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            await handle(ledger, message, process, dead_letter)


if __name__ == "__main__":
    asyncio.run(main())
