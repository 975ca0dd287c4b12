"""The channel of an `AsyncLedger`, made with the first call in each event loop."""

from __future__ import annotations

import asyncio
import os
from typing import Any, Optional

import grpc
import grpc.aio

from ._connection import Connection
from ._core.steps import Send
from ._failure import failure_of
from ._proto import ledger_pb2_grpc as rpc
from ._telemetry import metadata
from .errors import Closed, ForkedTooLate


class _Process:
    """What this process, or the one that it was forked from, has done with gRPC's event loop."""

    used = False
    forked_after_use = False

    @classmethod
    def forked(cls) -> None:
        """In a child: the thread that drives gRPC's event loop is gone, and a call would wait for ever."""
        cls.forked_after_use = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


class AioTransport:
    """Sends calls on the event loop that runs."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closed = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._channel: Optional[grpc.aio.Channel] = None
        self._stub: Any = None

    def _method(self, name: str) -> Any:
        if self._closed:
            raise Closed("the ledger's client is closed")
        if _Process.forked_after_use:
            raise ForkedTooLate
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            credentials, options = self._connection.credentials(), self._connection.options()
            target, _ = self._connection.target()
            _Process.used = True
            self._channel = (
                grpc.aio.secure_channel(target, credentials, options)
                if credentials
                else grpc.aio.insecure_channel(target, options)
            )
            self._stub, self._loop = rpc.LedgerServiceStub(self._channel), loop  # type: ignore[no-untyped-call]
        return getattr(self._stub, name)

    async def send(self, step: Send) -> Any:
        """The answer to a call, or its `Failure`."""
        try:
            return await self._method(step.method)(
                step.request, timeout=step.timeout, wait_for_ready=step.repeat, metadata=metadata()
            )
        except grpc.RpcError as error:
            return failure_of(error, str(self._connection.endpoint))

    async def close(self) -> None:
        """Closes the channel: nothing can be sent any more."""
        self._closed = True
        if self._channel is not None and self._loop is asyncio.get_running_loop():
            await self._channel.close()
