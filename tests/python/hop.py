"""A hop between consumers and the ledger, as a mesh puts one there: it passes calls on, loses some, answers
some as a newer ledger might, and sees what consumers do."""

import concurrent.futures
import threading
import time

import grpc
from stubs import pb

CLAIM, COMPLETE, FAIL = (f"/idempotency.ledger.v1.LedgerService/{name}" for name in ("Claim", "Complete", "Fail"))
# The clocks of a broker and of this process are not the same.
TOLERANCE = 0.02


# The field 15 of a ClaimResponse, which no version knows yet: an empty message.
NEW_FIELD = bytes([15 << 3 | 2, 0])
# What a newer ledger might answer to a Claim.
NEW_ADVICE = pb.ClaimResponse(advice=99).SerializeToString()
NEW_VERDICT = pb.ClaimResponse(advice=pb.ADVICE_PROCESS).SerializeToString() + NEW_FIELD


class Hop(grpc.GenericRpcHandler):
    def __init__(self, ledger, loses, answers):
        """`loses`: of each of these messages the first Complete is not passed on. `answers`: what the first Claim of
        each of these messages is answered, without asking the ledger."""
        self.loses, self.answers = set(loses), dict(answers)
        self.lost, self.answered = set(), set()
        self.waits = []  # ids of which a consumer was told to wait
        self.early = []  # ids that were claimed before that wait was over
        self._due = {}
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(ledger)
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=16))
        self._server.add_generic_rpc_handlers([self])
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, call):
        if not call.method.startswith("/idempotency.ledger."):
            return None  # UNIMPLEMENTED: a client takes a server without a health service for healthy.
        return grpc.unary_unary_rpc_method_handler(lambda body, context: self._pass_on(call.method, body, context))

    def _pass_on(self, method, body, context):
        if method == CLAIM:
            message_id = pb.ClaimRequest.FromString(body).key.id
            self._claimed(message_id)
            if self._first(message_id, self.answers, self.answered):
                return self.answers[message_id]
        if method == COMPLETE and self._first(pb.CompleteRequest.FromString(body).key.id, self.loses, self.lost):
            # As a reset by a hop looks to the caller: a status, and no word from the ledger.
            context.abort(grpc.StatusCode.INTERNAL, "the stream was reset")
        try:
            answer = self._channel.unary_unary(method)(body, timeout=context.time_remaining())
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details())
        if method == CLAIM:
            self._told(pb.ClaimRequest.FromString(body), pb.ClaimResponse.FromString(answer))
        if method == FAIL:
            self._told(pb.FailRequest.FromString(body), pb.FailResponse.FromString(answer))
        return answer

    def _first(self, message_id, planned, done):
        with self._lock:
            first = message_id in planned and message_id not in done
            if first:
                done.add(message_id)
            return first

    def _told(self, request, answer):
        if answer.advice == pb.ADVICE_RETRY_LATER and answer.HasField("retry_after"):
            wait = answer.retry_after.seconds + answer.retry_after.nanos / 1e9
            with self._lock:
                self.waits.append(request.key.id)
                self._due[request.key.id] = time.monotonic() + wait

    def _claimed(self, message_id):
        with self._lock:
            if time.monotonic() < self._due.pop(message_id, 0) - TOLERANCE:
                self.early.append(message_id)
