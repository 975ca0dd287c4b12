"""A fault proxy between clients and the ledger: it passes calls on, byte for byte, and does what its script says.

By itself, for a test of your own consumer:

    python proxy.py --ledger 127.0.0.1:50051 --listen 127.0.0.1:50061 --script faults.json

A script is a list of faults; the first that fits a call is used up by it:

    [{"method": "Complete", "do": "lose"}, {"method": "Claim", "do": "delay", "seconds": 2, "times": 3}]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "clients" / "python" / "src"))
from idempotency_ledger._proto import ledger_pb2 as pb

SERVICE = "/idempotency.ledger.v1.LedgerService/"
# A field of ClaimResponse that no version knows: an empty message.
UNKNOWN_VERDICT = bytes([15 << 3 | 2, 0])
DOES = ("pass", "lose", "reset", "unavailable", "hang", "swallow", "delay", "hold", "refuse", "answer")


@dataclass
class Fault:
    """What happens to some calls of one method.

    `do`: `pass`: nothing, but `then` is called; `lose`: it is carried out, and its answer is lost (INTERNAL without
    ErrorInfo); `reset`: it is not carried out (INTERNAL without ErrorInfo); `unavailable`: the same with UNAVAILABLE;
    `hang`: it is carried out, and never answered; `swallow`: neither; `delay`: it is passed on after `seconds`;
    `hold`: it is passed on, and answered after `release()`; `refuse`: it is not passed on, and answered the ledger's
    own error (`code`, `reason`, `advice`, `retry_after_ms`); `answer`: it is carried out, and its answer has another
    `advice` (a number), and with `unknown_verdict` a verdict that no version knows; with `instead` it is not carried out.
    """

    method: str
    do: str
    times: int = 1
    skip: int = 0
    id: str | None = None
    id_prefix: str = ""
    seconds: float = 0.0
    code: str = "FAILED_PRECONDITION"
    reason: str = ""
    advice: Any = None
    retry_after_ms: int | None = None
    unknown_verdict: bool = False
    instead: bool = False
    before: Callable[[], None] | None = None
    then: Callable[[], None] | None = None
    reached: threading.Event = field(default_factory=threading.Event)
    _released: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        if self.do not in DOES:
            raise ValueError(f"a fault does one of {', '.join(DOES)}, not {self.do!r}")

    def fits(self, id: str) -> bool:
        """Whether it is for this message: by its `id`, or by the `id_prefix` that its id begins with."""
        return self.id in (None, id) and id.startswith(self.id_prefix)

    def release(self) -> None:
        """Lets the held calls go on."""
        self._released.set()


@dataclass(frozen=True)
class Call:
    """A call that has arrived at the proxy."""

    method: str
    request: Any
    raw: bytes
    at: float
    deadline: float | None
    metadata: dict[str, str]


def id_of(request: Any) -> str:
    """The id of the message that a request names; empty where it names none, as ClaimNext does."""
    return str(request.key.id) if hasattr(request, "key") else ""


class Proxy(grpc.GenericRpcHandler):
    """A server in this process that passes calls on to a ledger."""

    def __init__(self, ledger: str, faults: Iterable[Fault] = (), listen: str = "127.0.0.1:0") -> None:
        self._faults = list(faults)
        self._lock = threading.Lock()
        self.calls: list[Call] = []
        self.answers: list[tuple[Call, Any, float]] = []
        self._changed = threading.Condition(self._lock)
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200),
                   ("grpc.initial_reconnect_backoff_ms", 50)]
        self._channel = grpc.insecure_channel(ledger, options)
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=64))
        self._server.add_generic_rpc_handlers([self])
        self.address = f"{listen.rpartition(':')[0]}:{self._server.add_insecure_port(listen)}"
        self._server.start()

    def add(self, *faults: Fault) -> Fault:
        """Adds faults; returns the first."""
        with self._lock:
            self._faults.extend(faults)
        return faults[0]

    def stop(self) -> None:
        """Ends the proxy; calls that hang in it end with it."""
        with self._lock:
            for fault in self._faults:
                fault.release()
        self._server.stop(0)
        self._channel.close()

    def of(self, method: str, id: str | None = None) -> list[Call]:
        """The calls of a method, and of a message where its id is given, in their order."""
        with self._lock:
            return [call for call in self.calls
                    if call.method == method and id in (None, id_of(call.request))]

    def wait_for(self, method: str, count: int, id: str | None = None, seconds: float = 30.0) -> list[Call]:
        """Waits until this number of calls of the method has arrived."""
        def arrived() -> list[Call]:
            return [call for call in self.calls if call.method == method and id in (None, id_of(call.request))]

        with self._changed:
            if not self._changed.wait_for(lambda: len(arrived()) >= count, seconds):
                raise AssertionError(f"{len(arrived())} calls of {method} in {seconds} s, and not {count}")
            return arrived()

    def service(self, call: Any) -> Any:
        if not call.method.startswith(SERVICE):
            return None  # UNIMPLEMENTED: a client without a health service takes a server for healthy.
        method = call.method[len(SERVICE):]
        metadata = {name: str(value) for name, value in call.invocation_metadata}
        return grpc.unary_unary_rpc_method_handler(lambda raw, context: self._call(method, raw, context, metadata))

    def _call(self, method: str, raw: bytes, context: Any, metadata: dict[str, str]) -> bytes:
        left = context.time_remaining()
        deadline = left if left is not None and left < 86_400 * 365 else None
        request = getattr(pb, f"{method}Request").FromString(raw)
        call = Call(method, request, raw, time.monotonic(), deadline, metadata)
        with self._changed:
            self.calls.append(call)
            fault = self._fault(call)
            self._changed.notify_all()
        if fault is None:
            return self._passed_on(call, context)
        fault.reached.set()
        if fault.before:
            fault.before()
        answer = self._faulty(fault, call, context)
        if fault.then:
            fault.then()
        return answer

    def _fault(self, call: Call) -> Fault | None:
        for fault in self._faults:
            if fault.method != call.method or fault.times == 0 or not fault.fits(id_of(call.request)):
                continue
            if fault.skip > 0:
                fault.skip -= 1
                continue
            fault.times -= 1  # Below zero from the start: always.
            return fault
        return None

    def _faulty(self, fault: Fault, call: Call, context: Any) -> bytes:
        if fault.do == "delay":
            time.sleep(fault.seconds)
        if fault.do in ("reset", "unavailable"):
            code = grpc.StatusCode.INTERNAL if fault.do == "reset" else grpc.StatusCode.UNAVAILABLE
            context.abort(code, "a hop has reset the stream")
        if fault.do == "refuse":
            self._refuse(fault, context)
        if fault.do == "swallow":
            self._hang(context)
        if fault.do == "answer" and fault.instead:
            return self._changed_answer(fault, call, b"")
        answer = self._passed_on(call, context)
        if fault.do == "lose":
            if fault.then:
                fault.then()
            context.abort(grpc.StatusCode.INTERNAL, "a hop has lost the answer")
        if fault.do == "hang":
            self._hang(context)
        if fault.do == "hold":
            fault._released.wait(60)
        return self._changed_answer(fault, call, answer) if fault.do == "answer" else answer

    def _hang(self, context: Any) -> None:
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(120)
        context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "never answered")

    def _refuse(self, fault: Fault, context: Any) -> None:
        """An error as the ledger makes it, by its trailers alone and by the details."""
        trailers = [("idempotency-ledger-reason", fault.reason),
                    ("idempotency-ledger-advice", str(fault.advice or "RETRY_LATER"))]
        if fault.retry_after_ms is not None:
            trailers.append(("idempotency-ledger-retry-after-ms", str(fault.retry_after_ms)))
        code = grpc.StatusCode[fault.code]
        details = _details(code.value[0], fault.reason, str(fault.advice or "RETRY_LATER"), fault.retry_after_ms)
        context.set_trailing_metadata([*trailers, ("grpc-status-details-bin", details)])
        context.abort(code, fault.reason)

    def _changed_answer(self, fault: Fault, call: Call, answer: bytes) -> bytes:
        message = getattr(pb, f"{call.method}Response").FromString(answer)
        if fault.advice is not None:
            message.advice = fault.advice
        if fault.unknown_verdict:
            message.ClearField(message.WhichOneof("verdict") or "completed")
        return bytes(message.SerializeToString()) + (UNKNOWN_VERDICT if fault.unknown_verdict else b"")

    def _passed_on(self, call: Call, context: Any) -> bytes:
        """The ledger's answer. The call goes on where its client is gone, as in a hop that has sent it already."""
        known = [(name, value) for name, value in call.metadata.items() if name in ("traceparent", "authorization")]
        try:
            answer = self._channel.unary_unary(f"{SERVICE}{call.method}")(
                call.raw, timeout=call.deadline or 30, metadata=known)
        except grpc.RpcError as error:
            context.set_trailing_metadata([pair for pair in error.trailing_metadata() or ()
                                           if pair[0].startswith("idempotency-ledger") or pair[0].endswith("-bin")])
            context.abort(error.code(), error.details())
        message = getattr(pb, f"{call.method}Response").FromString(answer)
        with self._lock:
            self.answers.append((call, message, time.monotonic()))
        return bytes(answer)


def _details(code: int, reason: str, advice: str, retry_after_ms: int | None) -> bytes:
    """google.rpc.Status with ErrorInfo and RetryInfo, written field by field: no package of its messages is needed."""
    def text(number: int, value: bytes) -> bytes:
        size, length = len(value), b""
        while size > 0x7F:
            length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + value

    def packed(kind: str, value: bytes) -> bytes:
        return text(3, text(1, f"type.googleapis.com/google.rpc.{kind}".encode()) + text(2, value))

    entry = text(1, b"advice") + text(2, advice.encode())
    info = text(1, reason.encode()) + text(2, b"idempotency.ledger.v1") + text(3, entry)
    status = bytes([1 << 3, code]) + text(2, reason.encode()) + packed("ErrorInfo", info)
    if retry_after_ms is not None:
        wait = pb.ClaimRequest().lease
        wait.FromMilliseconds(retry_after_ms)
        status += packed("RetryInfo", text(1, wait.SerializeToString()))
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ledger", required=True, help="HOST:PORT of the ledger")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT of the proxy; port 0 takes a free one")
    parser.add_argument("--script", required=True, help="a JSON file with the faults")
    options = parser.parse_args()
    script = json.loads(pathlib.Path(options.script).read_text(encoding="utf-8"))
    proxy = Proxy(options.ledger, [Fault(**fault) for fault in script], options.listen)
    print(json.dumps({"listen": proxy.address}), flush=True)
    seen = 0
    while True:
        with proxy._changed:
            proxy._changed.wait_for(lambda: len(proxy.calls) > seen)
            calls, seen = proxy.calls[seen:], len(proxy.calls)
        for call in calls:
            print(json.dumps({"method": call.method, "id": id_of(call.request), "deadline": call.deadline}), flush=True)


if __name__ == "__main__":
    main()
