"""Stands for a broker in the first example of clients/python/README.md: the scenario delivers, and sees what becomes of it."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any

_messages: queue.Queue[Message] = queue.Queue()
going: dict[str, threading.Semaphore] = {}


def say(event: str, **fields: Any) -> None:
    os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


class Message:
    def __init__(self, command: dict[str, Any]) -> None:
        self.id: str = command["id"]
        self.body: bytes = command["id"].encode()
        self._call: str = command["call"]

    def ack(self) -> None:
        self._done("ACK", 0)

    def dead_letter(self) -> None:
        self._done("DEAD_LETTER", 0)

    def retry(self, after: float) -> None:
        self._done("RETRY_LATER", after)

    def _done(self, advice: str, delay: float) -> None:
        say("outcome", call=self._call, advice=advice, delay=delay, reason=None)


def receive(timeout: float) -> Message | None:
    try:
        return _messages.get(timeout=timeout)
    except queue.Empty:
        return None


def _read() -> None:
    for line in iter(sys.stdin.readline, ""):
        command = json.loads(line)
        if command["do"] == "process":
            _messages.put(Message(command))
        elif command["do"] == "go":
            going.setdefault(command["call"], threading.Semaphore(0)).release()


threading.Thread(target=_read, daemon=True).start()
say("ready")
