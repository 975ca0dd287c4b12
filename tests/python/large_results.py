"""The consumers of examples/, plain and guarded, with results around and beyond the bound: each message has one effect.

A result that is too large must not refuse the Complete: the next delivery would repeat the effect. What was left out is seen in
the metrics and in the log; tests/observe/alerts.py fires the alert.
"""

import asyncio
import json
import sqlite3
import sys
import urllib.request

from running import ROOT, Running, checked, free_port, options

PACKAGE, EXAMPLE = ROOT / "clients" / "python" / "src", ROOT / "examples" / "guard"
sys.path[:0] = [str(PACKAGE), str(EXAMPLE)]

import consumer as guarded_consumer  # examples/consumer has one of the same name
import grpc
from idempotency_ledger import Advice, AsyncLedger, Connection, Key, Ledger
from sinks import Sinks
from stubs import pb, rpc

BOUND = 16_384
SIZES = (BOUND, BOUND + 1, 1_000_000, 5_000_000)
DELIVERIES = 5  # of each message: what a broker does until it is acknowledged, and twice more


class Plain:
    """The Python package, as examples/consumer has it, and the sink that counts every effect."""

    def __init__(self, path, address):
        self.ledger, self.sinks = AsyncLedger("plain", Connection(address)), Sinks(path / "sinks.db")

    async def deliver(self, key, size):
        async def process(_claim):
            self.sinks.plain(key.id)
            return bytes(size)

        return await self.ledger.process(Key.of(key.source, key.id), process)

    def effects(self, message_id):
        return self.sinks.count("plain", message_id)


class Guarded:
    """examples/guard: the effect is a row in the consumer's own database."""

    def __init__(self, path, address):
        self.ledger, self.file = Ledger("guarded", Connection(address)), path / "shop.db"
        with sqlite3.connect(self.file) as database:
            for schema in (PACKAGE / "idempotency_ledger" / "guard" / "sqlite.sql", EXAMPLE / "payments.sql"):
                database.executescript(schema.read_text())
        self.pay = guarded_consumer.pay

    async def deliver(self, key, size):
        guarded_consumer.pay = lambda cursor, event: self.pay(cursor, event).ljust(size, b"\0")
        body = json.dumps({"source": key.source, "id": key.id, "data": {"amount": 42}}).encode()
        return await asyncio.to_thread(guarded_consumer.deliver, body, self.ledger, f"sqlite:{self.file}")

    def effects(self, message_id):
        with sqlite3.connect(self.file) as database:
            return database.execute("SELECT count(*) FROM payments WHERE id = ?", (message_id,)).fetchone()[0]


async def one_effect(ledger, consumer, name):
    for size in SIZES:
        key = pb.EntryKey(consumer=name, source="shop", id=f"order-{size}")
        advices = [(await consumer.deliver(key, size)).advice for _ in range(DELIVERIES)]
        assert advices == [Advice.ACK] * DELIVERIES, (size, advices)
        assert consumer.effects(key.id) == 1, f"{size} bytes: {consumer.effects(key.id)} effects"
        found = (await ledger.Lookup(pb.LookupRequest(key=key), timeout=5)).completed
        stored = size if size <= BOUND else 0
        assert (len(found.result), found.result_dropped) == (stored, size > BOUND), size


def seen(running, observe):
    """Both consumers have had three results that were not stored, and one of these calls was refused as too large."""
    with urllib.request.urlopen(f"http://{observe}/metrics", timeout=5) as answer:
        metrics = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    counted = metrics['idempotency_ledger_corrected_fields_total{field="result"}']
    assert counted == "6", counted
    # A call that is too large as a whole is refused before the ledger sees it.
    handled = [float(value) for series, value in metrics.items()
               if series.startswith("grpc_server_handled_total{") and 'grpc_method="Complete"' in series
               and 'grpc_code="InvalidArgument"' in series]
    assert sum(handled) == 2, handled
    lines = [json.loads(line) for line in running.log("server").splitlines() if line.startswith("{")]
    # One line a second and consumer: of the request, which names the field, or of the answer, which names the key.
    corrected = [line for line in lines if line.get("event") == "corrected"]
    assert all(line["level"] == "WARN" and ("key" in line or line["field"] == "result") for line in corrected), lines
    assert any("field" in line for line in corrected), lines


async def serve_both(running, ledger, address):
    for name, consumer in (("plain", Plain), ("guarded", Guarded)):
        await one_effect(ledger, consumer(running.path, address), name)


def main():
    chosen = options(__doc__)
    with Running() as running:
        observe = f"127.0.0.1:{free_port()}"
        more = ("--observe-listen", observe, "--http-listen", "off", "--log-format", "json")
        _, address = running.serve(chosen.binary, chosen.database_url, *more)

        async def both():
            async with grpc.aio.insecure_channel(address) as channel:
                await serve_both(running, rpc.LedgerServiceStub(channel), address)

        sys.exit(checked([
            ("results of 16,384 bytes and more: one effect each, plain and guarded", lambda: asyncio.run(both())),
            ("what was left out is seen in metrics and log", lambda: seen(running, observe)),
        ]))


if __name__ == "__main__":
    main()
