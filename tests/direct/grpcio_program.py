"""Consumers of grpcio that reach the servers themselves, by nothing but the service config that is given: what
tests/direct/go is with grpc-go, and with the same arguments, questions and answers.
"""

import argparse
import collections
import json
import pathlib
import sys
import threading
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))

import grpc
from stubs import pb, rpc

# Every message comes twice, as from a broker that has not heard the acknowledgement.
DELIVERIES = 2
# So many messages are in a batch.
BATCH = 10
# How often a call is repeated by its caller, as docs/clients.md, rule 4, says.
REPEATS = 3


class Counts:
    """Those of all consumers together."""

    def __init__(self):
        self.calls, self.failures, self.given_up, self.slowest = 0, collections.Counter(), 0, 0.0
        self._lock = threading.Lock()

    def called(self, seconds):
        with self._lock:
            self.calls += 1
            self.slowest = max(self.slowest, seconds)

    def failed(self, error):
        """By the ledger's reason where it gave one, else by what the client says; and whether its answer had begun to come,
        after which gRPC repeats no call."""
        reason = dict(error.trailing_metadata() or ()).get("idempotency-ledger-reason", error.details())
        begun = ", its answer had begun" if error.initial_metadata() else ""
        with self._lock:
            self.failures[f"{error.code().name}: {reason}{begun}"] += 1

    def gave_up(self):
        with self._lock:
            self.given_up += 1

    def sofar(self):
        with self._lock:
            return {"calls": self.calls, "failures": dict(self.failures), "given_up": self.given_up,
                    "slowest_ms": round(self.slowest * 1000)}


class Consumer:
    def __init__(self, ledger, name, counts):
        self.ledger, self.name, self.counts = ledger, name, counts

    def deliver(self, messages):
        """Claims the messages, has the effect of each that is granted, and completes it."""
        requests = [pb.ClaimRequest(key=self.key(one), claim_id=str(uuid.uuid4()), owner="direct") for one in messages]
        answers, granted = self.claim(requests), []
        for at, one in enumerate(messages):
            verdict = answers[at].WhichOneof("verdict") if answers else None
            if verdict == "acquired":
                one["effects"] += 1
                one["end"] = "no answer to its completion"
                token = answers[at].acquired.token
                granted.append((one, pb.CompleteRequest(key=self.key(one), token=token, result=one["id"].encode())))
            elif verdict == "completed":
                one["end"] = "completed"
            else:
                one["end"] = f"claimed: {answers[at]}" if answers else "no answer to its claim"
        if granted:
            for (one, _), end in zip(granted, self.complete([request for _, request in granted])):
                one["end"] = end

    def key(self, message):
        return pb.EntryKey(consumer=self.name, source="tests", id=message["id"])

    def claim(self, requests):
        """None where the call was given up."""
        if len(requests) > 1:
            answer = self.call(self.ledger.BatchClaim, pb.BatchClaimRequest(requests=requests))
            return answer.responses if answer is not None else None
        answer = self.call(self.ledger.Claim, requests[0])
        return [answer] if answer is not None else None

    def complete(self, requests):
        """How each message ended; nothing where the call was given up."""
        if len(requests) == 1:
            return ["completed"] if self.call(self.ledger.Complete, requests[0]) is not None else []
        settlements = [pb.Settlement(complete=request) for request in requests]
        answer = self.call(self.ledger.BatchSettle, pb.BatchSettleRequest(settlements=settlements))
        results = answer.results if answer is not None else []
        return ["completed" if result.HasField("complete") else f"settled: {result}" for result in results]

    def call(self, method, request):
        """No deadline of its own: the service config has one. None where it gave up."""
        for _ in range(1 + REPEATS):
            began = time.monotonic()
            try:
                return method(request)
            except grpc.RpcError as error:
                self.counts.failed(error)
            finally:
                self.counts.called(time.monotonic() - began)
        self.counts.gave_up()
        return None


def consume(options, name, size, counts, over, done):
    """Over a channel of its own, as of a process of its own."""
    # The list of addresses is no name that a call could be for.
    arguments = [("grpc.service_config", pathlib.Path(options.service_config).read_text()),
                 ("grpc.use_local_subchannel_pool", 1), ("grpc.default_authority", "ledger")]
    with grpc.insecure_channel(f"ipv4:{options.servers}", options=arguments) as channel:
        consumer = Consumer(rpc.LedgerServiceStub(channel), name, counts)
        while not over.is_set():
            messages = [{"consumer": name, "id": str(uuid.uuid4()), "effects": 0, "end": ""} for _ in range(size)]
            for _ in range(DELIVERIES):
                consumer.deliver(messages)
            done.extend(messages)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", required=True, help="their addresses, with commas between them")
    parser.add_argument("--service-config", required=True, help="a file")
    parser.add_argument("--consumers", required=True, help="their names, with commas; the first one does batches")
    options = parser.parse_args()
    counts, over, done = Counts(), threading.Event(), []
    threads = [threading.Thread(target=consume, args=(options, name, 1 if number else BATCH, counts, over, done))
               for number, name in enumerate(options.consumers.split(","))]
    for thread in threads:
        thread.start()
    for _ in sys.stdin:
        print(json.dumps(counts.sofar()), flush=True)
    over.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"version": grpc.__version__, "counts": counts.sofar(), "messages": done}))


main()
