"""The HTTP application of the subject with asyncio, and the smallest server for it: HTTP/1.1, one request a connection."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import idempotency_ledger as il
from idempotency_ledger import http as middleware
from python_wsgi import HEADERS, content, settings


async def serve(command: dict[str, Any], say: Any, going: dict[str, asyncio.Semaphore]) -> None:
    """Serves the application, and says where."""
    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        claim, headers = scope.get("idempotency_ledger.claim"), dict(scope["headers"])
        call = headers.get(b"x-call", b"").decode()
        go = going.setdefault(call, asyncio.Semaphore(0))
        await receive()
        for step in json.loads(headers.get(b"x-steps", b"[]")):
            if step["do"] == "effect":
                say("effect", call=call, id=call, token=str(claim.token if claim else 0),
                    idempotency_key=claim.idempotency_key if claim else call)
                await go.acquire()
            elif step["do"] == "pause":
                say("paused", call=call)
                await go.acquire()
            elif step["do"] == "announce":
                await claim.announce()
            elif step["do"] == "raise":
                raise ValueError("no answer")
            elif step["do"] == "answer":
                pairs = [(name.lower().encode(), value.encode()) for name, value in HEADERS]
                await send({"type": "http.response.start", "status": step["status"], "headers": pairs})
                await send({"type": "http.response.body", "body": content(step)})
                return
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def reread(_scope: dict[str, Any]) -> middleware.Answer:
        return middleware.Answer(200, [("content-type", "text/plain")], b"read again")

    ledger = il.AsyncLedger(command["consumer"], il.Connection(command["endpoint"]))
    chosen = settings(command, lambda scope: dict(scope["headers"]).get(b"x-tenant", b"").decode(), reread)
    wrapped = middleware.ASGIMiddleware(app, ledger, chosen)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(wrapped, reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    say("serving", address=f"127.0.0.1:{server.sockets[0].getsockname()[1]}")


async def _request(app: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = [(name.lower().encode(), value.strip().encode())
               for name, _, value in (line.partition(":") for line in head[1:] if line)]
    body = await reader.readexactly(int(dict(headers).get(b"content-length", b"0")))
    events = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return events.pop() if events else {"type": "http.disconnect"}

    async def send(event: dict[str, Any]) -> None:
        if event["type"] == "http.response.start":
            lines = [f"HTTP/1.1 {event['status']} Status".encode(), b"connection: close"]
            lines += [name + b": " + value for name, value in event["headers"]]
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
        else:
            writer.write(event["body"])

    scope = {"type": "http", "method": method, "path": path, "headers": headers}
    answering = asyncio.ensure_future(app(scope, receive, send))
    # As servers do: a client that goes away cancels the application.
    gone = asyncio.ensure_future(reader.read(1))
    await asyncio.wait({answering, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not answering.done():
        answering.cancel()
    try:
        await answering
    except Exception:
        writer.write(b"HTTP/1.1 500 Status\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    except asyncio.CancelledError:
        pass
    gone.cancel()
    writer.close()
