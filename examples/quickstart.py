"""Claims a message, completes it, and claims it again.

    python3 -m venv .venv && .venv/bin/pip install grpcio-tools
    .venv/bin/python examples/quickstart.py [HOST:PORT, http://HOST:PORT or https://HOST:PORT]

With https:// the server's authority is IDEMPOTENCY_LEDGER_TLS_CA, and a token is read from IDEMPOTENCY_LEDGER_TOKEN_FILE.
"""

import os
import sys
import uuid

from reach import channel
from stubs import pb, rpc

default = os.environ.get("IDEMPOTENCY_LEDGER_ENDPOINT", "127.0.0.1:50051")
endpoint = sys.argv[1] if len(sys.argv) > 1 else default
ledger = rpc.LedgerServiceStub(channel(endpoint))
key = pb.EntryKey(consumer="quickstart", source="shop", id=f"order-{uuid.uuid4()}")


def deliver():
    """A delivery of the message: each has its own claim_id."""
    answer = ledger.Claim(pb.ClaimRequest(key=key, claim_id=str(uuid.uuid4()), owner="quickstart"), timeout=5)
    print(f"Claim     -> {answer.WhichOneof('verdict')}, advice {pb.Advice.Name(answer.advice)}")
    return answer


first = deliver()
# Here the message would be processed; `token` fences it, `idempotency_key` goes to the provider.
done = ledger.Complete(pb.CompleteRequest(key=key, token=first.acquired.token, result=b"paid"), timeout=5)
print(f"Complete  -> OK, advice {pb.Advice.Name(done.advice)}")
again = deliver()
print(f"             its result: {again.completed.result.decode()}")
