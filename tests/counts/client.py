"""A client that sends the same messages in each run: what random ids cost differs by chance."""

import asyncio
import concurrent.futures
import pathlib
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

import grpc
import grpc.aio
from stubs import pb, rpc

BATCH, BATCHES_IN_FLIGHT, IN_FLIGHT = 100, 8, 256
# As long as the owners of `bench`, and of the table that `tests/prove speed` compares with.
OWNER = "bench-host-1234"
TIMEOUT = 60
# Probes of the bandwidth come by the clock.
OPTIONS = [("grpc.http2.bdp_probe", 0), ("grpc.use_local_subchannel_pool", 1)]
# Odd numbers: a number times one of them, modulo 2 ** 128, is a permutation that looks random.
SPREAD_ID, SPREAD_CLAIM = 0x9E3779B97F4A7C15F39CC0605CEDC835, 0xBF58476D1CE4E5B994D049BB133111EB


def uuid_of(number, spread):
    return str(uuid.UUID(int=(number + 1) * spread % (1 << 128), version=4))


def key(number, consumer="bench-1"):
    return pb.EntryKey(consumer=consumer, source="bench", id=uuid_of(number, SPREAD_ID))


def request(number, consumer="bench-1"):
    return pb.ClaimRequest(key=key(number, consumer), claim_id=uuid_of(number, SPREAD_CLAIM), owner=OWNER)


def parts(numbers):
    numbers = list(numbers)
    return [numbers[first:first + BATCH] for first in range(0, len(numbers), BATCH)]


class Client:
    def __init__(self, address, certificate=None, token=None):
        self.address = address
        self.metadata = [("authorization", f"Bearer {token}")] if token else []
        if certificate:
            self.channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(certificate), OPTIONS)
        else:
            self.channel = grpc.insecure_channel(address, OPTIONS)
        self.ledger = rpc.LedgerServiceStub(self.channel)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def claim(self, number):
        answer = self.ledger.Claim(request(number), timeout=TIMEOUT, metadata=self.metadata)
        if not answer.HasField("acquired"):
            raise RuntimeError(f"a new message was not granted: {answer}")

    def answers(self, numbers, consumer="bench-1"):
        """The answers to one batch."""
        batch = pb.BatchClaimRequest(requests=[request(number, consumer) for number in numbers])
        return self.ledger.BatchClaim(batch, timeout=TIMEOUT, metadata=self.metadata).responses

    def batch_claim(self, numbers):
        """Claims all of them in batches, a number of which are in flight."""
        self._in_flight(self.granted, numbers)

    def batch_pairs(self, numbers):
        """The same, and each batch is completed."""
        self._in_flight(lambda part: self.complete(part, self.granted(part)), numbers)

    def _in_flight(self, do, numbers):
        with concurrent.futures.ThreadPoolExecutor(BATCHES_IN_FLIGHT) as threads:
            for done in [threads.submit(do, part) for part in parts(numbers)]:
                done.result()

    def granted(self, numbers):
        """The tokens of one batch of claims."""
        answers = self.answers(numbers)
        if not all(answer.HasField("acquired") for answer in answers):
            raise RuntimeError("a new message was not granted")
        return [answer.acquired.token for answer in answers]

    def complete(self, numbers, tokens):
        """Completes one batch."""
        settlements = [pb.Settlement(complete=pb.CompleteRequest(key=key(number), token=token))
                       for number, token in zip(numbers, tokens)]
        results = self.ledger.BatchSettle(pb.BatchSettleRequest(settlements=settlements), timeout=TIMEOUT).results
        if not all(result.HasField("complete") for result in results):
            raise RuntimeError("a completion was refused")

    def claim_concurrently(self, numbers):
        """Claims all of them by single calls, a number of which are in flight; how many were answered as completed."""
        return asyncio.run(self._concurrently(list(numbers)))

    async def _concurrently(self, numbers):
        numbers, completed = iter(numbers), 0
        async with grpc.aio.insecure_channel(self.address, OPTIONS) as channel:
            ledger = rpc.LedgerServiceStub(channel)

            async def one_after_the_other():
                nonlocal completed
                for number in numbers:
                    answer = await ledger.Claim(request(number), timeout=TIMEOUT)
                    completed += answer.HasField("completed")

            await asyncio.gather(*(one_after_the_other() for _ in range(IN_FLIGHT)))
        return completed
