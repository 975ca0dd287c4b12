"""The middleware for WSGI: Flask, Django, Bottle, Pyramid."""

from __future__ import annotations

import http
import io
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from .._claim import Result
from ..errors import ClaimLost, Closed
from ..key import Key
from ..ledger import Claim, Ledger
from . import _rules
from ._rules import Answer, Collected, Exchange, Settings

Environ = Dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]


class WSGIMiddleware:
    """Lets an application process each request with an `Idempotency-Key` once.

    `ledger`: a `Ledger` whose consumer is the name of the API; it may be made before the server forks its workers.
    The application finds its claim in ``environ["idempotency_ledger.claim"]``.
    """

    def __init__(self, app: App, ledger: Ledger, settings: Optional[Settings] = None) -> None:
        self._app = app
        self._ledger = ledger
        self._settings = settings or Settings()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """A call of WSGI."""
        settings = self._settings
        sent = [environ["HTTP_IDEMPOTENCY_KEY"]] if "HTTP_IDEMPOTENCY_KEY" in environ else []
        if environ["REQUEST_METHOD"] not in settings.methods or not (sent or settings.required):
            return self._app(environ, start_response)
        key = _rules.key_of(sent)
        if key is None:
            return _answer(start_response, _rules.MALFORMED if sent else _rules.MISSING)
        body = _body(environ, settings.body_max)
        if body is None:
            return _answer(start_response, _rules.problem(413, f"a body may have {settings.body_max} bytes"))
        path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
        source = _rules.named(settings, environ, environ["REQUEST_METHOD"], path)
        return _answer(start_response, self._processed(Key(source, key), environ, body))

    def _processed(self, key: Key, environ: Environ, body: bytes) -> Answer:
        exchange = Exchange(self._settings)

        def handler(claim: Claim) -> Result:
            try:
                answer, whole = self._called({**environ, _rules.CLAIM: claim}, body)
            except ClaimLost:
                raise  # Nothing is settled: how the effect ended is unknown.
            except Exception as error:
                raise exchange.failed(error, claim.announced) from error
            return exchange.answered(answer, whole, claim.announced)

        try:
            outcome = self._ledger.process(key, handler, body=body, wait=self._settings.wait)
        except Closed:
            return _rules.CLOSING
        answer, reread = exchange.final(outcome)
        if reread and self._settings.reread:
            return _rules.marked(self._settings.reread(environ))
        return answer

    def _called(self, environ: Environ, body: bytes) -> Tuple[Answer, bool]:
        collected = Collected(self._settings)

        def start_response(
            status: str, headers: List[Tuple[str, str]], exc_info: Any = None
        ) -> Callable[[bytes], None]:
            collected.status = int(status.split(" ", 1)[0])
            collected.headers = [(name.lower(), value) for name, value in headers]
            return collected.part

        environ["wsgi.input"], environ["CONTENT_LENGTH"] = io.BytesIO(body), str(len(body))
        environ.pop("HTTP_TRANSFER_ENCODING", None)
        parts = self._app(environ, start_response)
        try:
            for part in parts:
                collected.part(part)
        finally:
            close = getattr(parts, "close", None)
            if close:
                close()
        return collected.answer()


def _body(environ: Environ, most: int) -> Optional[bytes]:
    """The body of a request; `None` if it is larger than `most`."""
    stated = environ.get("CONTENT_LENGTH") or ""
    if stated.isdigit():
        if int(stated) > most:
            return None
        body = environ["wsgi.input"].read(int(stated))
    elif environ.get("wsgi.input_terminated"):  # Sent in chunks, by a server that marks their end.
        body = environ["wsgi.input"].read(most + 1)
    else:
        body = b""
    return bytes(body) if len(body) <= most else None


def _answer(start_response: StartResponse, answer: Answer) -> List[bytes]:
    try:
        phrase = http.HTTPStatus(answer.status).phrase
    except ValueError:
        phrase = "Status"
    start_response(f"{answer.status} {phrase}", _rules.sent_headers(answer))
    return [answer.body]
