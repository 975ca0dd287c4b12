"""Where a test makes the consumer die, stop or stand still. Without FAULTS it does nothing.

FAULTS is a JSON object from a message's id to [point, signal, seconds that the effect then takes];
FAULTS_DONE is a folder that remembers what has happened, so that each happens once, whichever
process it hits.
"""

import asyncio
import json
import os
import pathlib
import signal

from nats.aio.msg import Msg

_PLAN = json.loads(os.environ.get("FAULTS", "{}"))


async def point(name, message_id):
    planned, signal_name, takes = _PLAN.get(message_id, (None, None, 0))
    if planned != name:
        return
    done = pathlib.Path(os.environ["FAULTS_DONE"]) / message_id
    try:
        with done.open("x") as file:  # fails if it happened before
            file.write(str(os.getpid()))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.Signals[signal_name])
    await asyncio.sleep(takes)


def before_acks():
    """Makes the point "before ack" of each acknowledgement."""
    if not _PLAN:
        return
    ack = Msg.ack

    async def later(message):
        await point("before ack", json.loads(message.data).get("id"))
        await ack(message)

    Msg.ack = later
