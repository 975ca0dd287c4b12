"""Processes a message, and processes it again when it is delivered again: the effect happens once.

    python3 -m venv .venv && .venv/bin/pip install ./clients/python
    .venv/bin/python examples/first.py [HOST:PORT or https://HOST:PORT]

Without an address the server is LEDGER_ENDPOINT, or 127.0.0.1:50051.
"""

import sys
import uuid

from idempotency_ledger import Connection, Key, Ledger


def pay(claim):
    """The effect. `claim.token` fences it; `claim.idempotency_key` goes to a provider that deduplicates by such a key."""
    print(f"pays in attempt {claim.attempt}")
    return b"paid"


key = Key.of("shop", f"order-{uuid.uuid4()}")
with Ledger("quickstart", Connection(sys.argv[1] if len(sys.argv) > 1 else None)) as ledger:
    for delivery in ("first", "second"):
        outcome = ledger.process(key, pay)
        again = ", replayed" if outcome.replayed else ""
        print(f"the {delivery} delivery: {outcome.advice.value}, its result: {outcome.result.decode()}{again}")
