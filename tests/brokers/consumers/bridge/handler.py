"""The handler behind the bridge: an effect in three sinks for each POST. It has no line for the ledger but two headers.

    python handler.py SINKS LISTENER PIPE OBSERVED      a file, two file descriptors, and a port of this machine

It ends, after what runs, once the other end of the pipe is closed: the bridge is gone then. Some first attempts it does not
answer, or refuses, by the id of the message.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from sinks import Sinks

EFFECT = 0.02  # seconds: long enough for a kill to hit it
# What becomes of a first attempt; most ids have no fault.
FAULTS = ["cut before the effect", "cut after the effect", "failed after the effect", "busy", "moved"]
# Each POST has a connection, and so a thread: the sinks stay open in others.
_workers = ThreadPoolExecutor(8)
_sinks = threading.local()
# The ids that were answered by a redirect.
_moved: set[str] = set()


def pay(id: str, token: int, key: str, takes: float) -> None:
    if not hasattr(_sinks, "open"):
        _sinks.open = Sinks(sys.argv[1])
    _sinks.open.plain(id)
    time.sleep(takes or EFFECT)
    _sinks.open.fenced(id, token)
    _sinks.open.deduplicating(id, key)
    time.sleep(EFFECT)


class Handler(BaseHTTPRequestHandler):
    """One POST of the bridge."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Content-Type"] == "application/cloudevents+json"
        if event["type"] == "poison":
            self.answer(429)
            return
        # A message that says how long it takes is of a run without faults.
        fault = None if "takes" in event else self.fault(event["id"])
        if fault == "busy":
            self.answer(503, "1")
        elif fault == "moved":  # It does not count as an attempt.
            _moved.add(event["id"])
            self.answer(307)
        elif fault != "cut before the effect":
            token, key = int(self.headers["Idempotency-Ledger-Token"]), self.headers["Idempotency-Key"]
            _workers.submit(pay, event["id"], token, key, event.get("takes", 0) / 1000).result()
            if fault == "failed after the effect":
                self.answer(500)
            elif fault != "cut after the effect":
                self.answer(204)
        self.close_connection = True

    def fault(self, id: str) -> str | None:
        number = zlib.crc32(id.encode()) % (4 * len(FAULTS))
        fault = FAULTS[number] if number < len(FAULTS) else None
        first = self.headers["Idempotency-Ledger-Attempt"] == "1" and id not in _moved
        return fault if first else None

    def answer(self, status: int, retry_after: str | None = None) -> None:
        self.send_response(status)
        if retry_after:
            self.send_header("Retry-After", retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_request(self, *_: object) -> None:
        """Nothing: the log is that of the run."""


def ready(bridge: int, port: int) -> None:
    """Says that the bridge consumes once it reports that by itself."""
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                print(f"{bridge} consumes", flush=True)
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.05)


def main() -> None:
    listener, pipe, observed = map(int, sys.argv[2:])
    server = ThreadingHTTPServer(("", 0), Handler, bind_and_activate=False)
    server.daemon_threads = False
    server.socket.close()
    server.socket = socket.socket(fileno=listener)
    threading.Thread(target=ready, args=(os.getppid(), observed), daemon=True).start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.read(pipe, 1)
    server.shutdown()
    server.server_close()


main()
