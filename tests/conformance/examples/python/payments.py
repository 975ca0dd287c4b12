"""Stands for a provider in the first example of clients/python/README.md: it knows idempotency keys."""

from __future__ import annotations

import threading

import broker


def charge(body: bytes, idempotency_key: str) -> str:
    call = f"charge-{body.decode()}"
    # The provider knows no token; the sink counts the effects by their key.
    broker.say("effect", call=call, id=body.decode(), token="0", idempotency_key=idempotency_key)
    broker.going.setdefault(call, threading.Semaphore(0)).acquire()
    return "paid"
