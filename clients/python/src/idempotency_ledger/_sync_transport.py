"""The channel of a `Ledger`, made with the first call: a process that forks before it has made none."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

import grpc

from ._connection import Connection
from ._core.steps import Failure, Send
from ._failure import failure_of
from ._proto import ledger_pb2_grpc as rpc
from ._telemetry import metadata
from .errors import Closed


class SyncTransport:
    """Sends calls, with or without waiting for their answers."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._closed = False
        self._channel: Optional[grpc.Channel] = None
        self._stub: Any = None

    def _method(self, name: str) -> Any:
        with self._lock:
            if self._closed:
                raise Closed("the ledger's client is closed")
            if self._stub is None:
                credentials, options = self._connection.credentials(), self._connection.options()
                target, _ = self._connection.target()
                self._channel = (
                    grpc.secure_channel(target, credentials, options)
                    if credentials
                    else grpc.insecure_channel(target, options)
                )
                self._stub = rpc.LedgerServiceStub(self._channel)  # type: ignore[no-untyped-call]
            return getattr(self._stub, name)

    def send(self, step: Send) -> Any:
        """The answer to a call, or its `Failure`."""
        try:
            return self._method(step.method)(
                step.request, timeout=step.timeout, wait_for_ready=step.repeat, metadata=metadata()
            )
        except grpc.RpcError as error:
            return failure_of(error, str(self._connection.endpoint))

    def start(self, step: Send, arrived: Callable[[Any], None]) -> None:
        """Sends a call; `arrived` is given its answer, or its `Failure`, on a thread of gRPC."""

        def done(future: Any) -> None:
            error = None if future.cancelled() else future.exception()
            if future.cancelled():
                arrived(Failure("CANCELLED"))
            else:
                arrived(future.result() if error is None else failure_of(error, str(self._connection.endpoint)))

        try:
            method = self._method(step.method)
        except Closed:
            arrived(Failure("CANCELLED"))
            return
        method.future(step.request, timeout=step.timeout, wait_for_ready=step.repeat).add_done_callback(done)

    def close(self) -> None:
        """Closes the channel: nothing can be sent any more."""
        with self._lock:
            self._closed = True
            if self._channel is not None:
                self._channel.close()
