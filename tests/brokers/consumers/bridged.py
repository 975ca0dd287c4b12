"""A consumer that is the bridge, with an HTTP handler which ends with it: this process becomes the bridge."""

from __future__ import annotations

import argparse
import os
import pathlib
import socket
import subprocess
import sys

HANDLER = pathlib.Path(__file__).resolve().parent / "bridge" / "handler.py"


def become(broker: dict[str, str]) -> None:
    """Starts the handler, and becomes the bridge. `broker` has settings of the bridge; `{broker}` stands for the broker's URL."""
    parser = argparse.ArgumentParser()
    for name in ("--broker", "--ledger", "--sinks"):
        parser.add_argument(name, required=True)
    options = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    with socket.create_server(("127.0.0.1", 0)) as free:
        observed = free.getsockname()[1]
    # The bridge holds the other end of the pipe, and never writes: its death closes it.
    read, write = os.pipe()
    subprocess.Popen([sys.executable, HANDLER, options.sinks, str(listener.fileno()), str(read), str(observed)],
                     pass_fds=(listener.fileno(), read))
    os.set_inheritable(write, True)
    settings = {
        "consumer": "payments", "url": f"http://127.0.0.1:{listener.getsockname()[1]}/orders", "ledger": options.ledger,
        # The sinks fence and deduplicate: the next attempt may find out.
        "unknown": "doubtful", "timeout": "5s", "release-delay": "200ms", "concurrency": "4", "grace": "10s",
        "observe-listen": f"127.0.0.1:{observed}",
        **{name: value.replace("{broker}", options.broker) for name, value in broker.items()},
    }
    bridge = os.path.join(os.environ["LEDGER_PACKAGE"], "build", "brokers", "idempotency-ledger-bridge")
    os.execv(bridge, [bridge, *(part for name, value in settings.items() for part in (f"--{name}", value))])
