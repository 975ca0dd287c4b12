"""Starts a ledger in memory for the scripts of this folder."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator


@contextlib.contextmanager
def ledger(binary: str) -> Iterator[str]:
    """The address of a server that forgets everything at its end."""
    command = [binary, "serve", "--ephemeral", "--listen", "127.0.0.1:0", "--http-listen", "off", "--observe-listen", "off"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout
        try:
            yield str(json.loads(server.stdout.readline())["listen"])
        finally:
            server.kill()
