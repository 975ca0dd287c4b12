"""The middleware for ASGI: Starlette, FastAPI, Django, Litestar, Quart."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, Dict, List, MutableMapping, Optional, Tuple

from .._claim import Result
from ..aio import AsyncClaim, AsyncLedger
from ..errors import ClaimLost, Closed
from ..key import Key
from . import _rules
from ._rules import Answer, Collected, Exchange, Settings

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[Dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Any], Awaitable[None]]


class ASGIMiddleware:
    """Lets an application process each request with an `Idempotency-Key` once.

    `ledger`: an `AsyncLedger` whose consumer is the name of the API; close it when the application shuts down. The
    application finds its claim in ``scope["idempotency_ledger.claim"]``. A client that goes away does not cancel a
    request that is processed; the loss of the claim does.
    """

    def __init__(self, app: App, ledger: AsyncLedger, settings: Optional[Settings] = None) -> None:
        self._app = app
        self._ledger = ledger
        self._settings = settings or Settings()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A call of ASGI."""
        settings = self._settings
        if scope["type"] != "http" or scope["method"] not in settings.methods:
            return await self._app(scope, receive, send)
        sent = [value.decode("latin-1") for name, value in scope["headers"] if name.lower() == b"idempotency-key"]
        if not sent and not settings.required:
            return await self._app(scope, receive, send)
        key = _rules.key_of(sent)
        if key is None:
            return await _answer(send, _rules.MALFORMED if sent else _rules.MISSING)
        body = await _body(receive, settings.body_max)
        if body is None:
            return await _answer(send, _rules.problem(413, f"a body may have {settings.body_max} bytes"))
        source = _rules.named(settings, scope, scope["method"], scope["path"])
        return await _answer(send, await self._processed(Key(source, key), scope, receive, body))

    async def _processed(self, key: Key, scope: Scope, receive: Receive, body: bytes) -> Answer:
        exchange = Exchange(self._settings)

        async def handler(claim: AsyncClaim) -> Result:
            try:
                answer, whole = await self._called({**scope, _rules.CLAIM: claim}, receive, body)
            except ClaimLost:
                raise  # Nothing is settled: how the effect ended is unknown.
            except Exception as error:
                raise exchange.failed(error, claim.announced) from error
            return exchange.answered(answer, whole, claim.announced)

        try:
            outcome = await self._ledger.process(key, handler, body=body, wait=self._settings.wait)
        except Closed:
            return _rules.CLOSING
        answer, reread = exchange.final(outcome)
        if reread and self._settings.reread:
            return _rules.marked(await self._settings.reread(scope))
        return answer

    async def _called(self, scope: Scope, receive: Receive, body: bytes) -> Tuple[Answer, bool]:
        collected = Collected(self._settings)
        unread: List[Dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_again() -> MutableMapping[str, Any]:
            return unread.pop() if unread else await receive()

        async def collect(event: Dict[str, Any]) -> None:
            if event["type"] == "http.response.start":
                collected.status = event["status"]
                collected.headers = [
                    (bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1"))
                    for name, value in event.get("headers", ())
                ]
            elif event["type"] == "http.response.body":
                collected.part(bytes(event.get("body", b"")))

        await self._app(scope, receive_again, collect)
        if not collected.status:
            raise RuntimeError("the application has ended without an answer")
        return collected.answer()


async def _body(receive: Receive, most: int) -> Optional[bytes]:
    """The body of a request; `None` if it is larger than `most`."""
    parts: List[bytes] = []
    size, more = 0, True
    while more and size <= most:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionResetError("the client has gone before its request was whole")
        parts.append(event.get("body", b""))
        size, more = size + len(parts[-1]), event.get("more_body", False)
    return b"".join(parts) if size <= most else None


async def _answer(send: Send, answer: Answer) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in _rules.sent_headers(answer)]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
