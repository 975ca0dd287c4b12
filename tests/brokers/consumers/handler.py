"""What each consumer in Python does with a message: an effect in three sinks, or a failure of a poisonous one."""

from __future__ import annotations

import argparse
import json
import os
import threading
import time

from idempotency_ledger import Connection, Retry, Shutdown
from sinks import Sinks

EFFECT = 0.02  # seconds: long enough for a kill to hit it; a message may say another time (`takes`, in milliseconds)
_sinks = threading.local()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("--broker", "--ledger", "--sinks"):
        parser.add_argument(name, required=True)
    return parser.parse_args()


def shutdown() -> Shutdown:
    """Made before the first message; from then on the test may ask the process to stop."""
    stop = Shutdown(grace=10)
    print(f"{os.getpid()} consumes", flush=True)
    return stop


def wait() -> float:
    """Seconds until the broker gives to another consumer what this one holds: its session, or the acknowledgement wait."""
    return float(os.environ["BROKER_WAIT"])


def connection(options: argparse.Namespace) -> Connection:
    return Connection(options.ledger)


def effect(options: argparse.Namespace, claim, body: bytes, pause=time.sleep):
    """Yields seconds to pause: an effect in an event loop must not block it."""
    event = json.loads(body)
    if event["type"] == "poison":
        raise Retry("this message cannot be processed")
    if not hasattr(_sinks, "open"):
        _sinks.open = Sinks(options.sinks)
    _sinks.open.plain(event["id"])
    yield event.get("takes", 0) / 1000 or EFFECT
    _sinks.open.fenced(event["id"], claim.token)
    _sinks.open.deduplicating(event["id"], claim.idempotency_key)
    yield EFFECT


def paid(options: argparse.Namespace, claim, body: bytes) -> bytes:
    for seconds in effect(options, claim, body):
        time.sleep(seconds)
    return b"done"
