"""What becomes of a request and of its answer, without a server interface: ASGI and WSGI share it."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import re
import urllib.parse
from dataclasses import dataclass
from typing import Any, Callable, Collection, List, Optional, Tuple

from ..errors import GiveBack, InvalidField, Park, Retry, Steer
from ..outcome import Advice, Outcome

CLAIM = "idempotency_ledger.claim"
"""Where an application finds its claim: in the scope of ASGI, and in the environ of WSGI."""
# Bare, as most clients send it: without the comma by which WSGI joins two headers. Or a string of structured fields.
_KEY = re.compile(r'([!#-+\--~]{1,255})|"((?:[ !#-\[\]-~]|\\["\\]){1,255})"')
_NO_EFFECT = frozenset({400, 401, 403, 404, 409, 422, 429})
_SOURCE_MAX = 256
_NO_BODY = frozenset({204, 304})

Headers = List[Tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """An answer of HTTP. Header names are in lower case."""

    status: int
    headers: Headers
    body: bytes = b""


class Rule(enum.Enum):
    """What an answer says of the request's effect."""

    STORE = "store"
    """There was an effect, or the answer is final: a repeat gets this answer."""
    RELEASE = "release"
    """There was none: the key may be used again, also with another body. Once announced, the answer is stored."""
    FAIL = "fail"
    """It is unknown: a repeat runs again. Once announced, the request is parked for a person."""


def default_rule(status: int) -> Rule:
    """5xx fail; 400, 401, 403, 404, 409, 422 and 429 release; all others are stored."""
    if status >= 500:
        return Rule.FAIL
    return Rule.RELEASE if status in _NO_EFFECT else Rule.STORE


@dataclass(frozen=True)
class Settings:
    """The settings of the middleware.

    `tenant` and `route` are called with the scope of ASGI or the environ of WSGI. Give a `route` wherever paths have
    ids, such as ``/orders/123``: each source is stored for ever.
    """

    tenant: Callable[[Any], str] = lambda _: ""
    """Whose key it is: keys of two tenants never meet. A request for which it does not return text fails with
    `InvalidField`, and nothing is sent: its key might be that of another tenant."""
    route: Optional[Callable[[Any], str]] = None
    """The route of a request, such as ``/orders/{id}``, which is text as well; the path by default."""
    methods: Collection[str] = ("POST", "PATCH")
    """The methods whose requests need a key."""
    required: bool = True
    """Whether a request without a key is refused, rather than passed on without protection."""
    wait: float = 5.0
    """Seconds to wait while the first request is not done."""
    rule: Callable[[int], Rule] = default_rule
    """What an answer's status says of the effect."""
    kept_headers: Collection[str] = ("content-type", "content-encoding", "location")
    """The headers that are stored with an answer, in lower case."""
    body_max: int = 1 << 20
    """The largest body of a request, in bytes; a larger one is answered 413."""
    result_max: int = 16_384
    """The largest answer that is stored with its body, in bytes: at most the ledger's `result_bytes_max`."""
    answer_max: int = 8 << 20
    """The largest answer that is held in memory, in bytes. Of a larger one only status and headers are sent."""
    reread: Optional[Callable[[Any], Any]] = None
    """Makes the answer to a repeat whose body was not stored: an `Answer`, for ASGI awaitable. Without it such a repeat
    gets status and headers, and ``Idempotency-Body: omitted``."""


def key_of(values: List[str]) -> Optional[str]:
    """The key of a request by the values of its header; `None` where it is malformed, or there more than once."""
    found = _KEY.fullmatch(values[0]) if len(values) == 1 else None
    if not found:
        return None
    return found[1] or re.sub(r"\\(.)", r"\1", found[2])


def named(settings: Settings, asked: Any, method: str, path: str) -> str:
    """The source of a request by its scope or environ, as `asked` of the settings."""
    route = _text("route", settings.route(asked)) if settings.route else path
    return source_of(_text("tenant", settings.tenant(asked)), method, route)


def _text(setting: str, returned: Any) -> str:
    """The text that a function of the settings has returned."""
    if not isinstance(returned, str):
        hint = "; place the middleware after the one that authenticates" if setting == "tenant" else ""
        raise InvalidField(setting, f"must return text for each request, not {type(returned).__name__}{hint}")
    return returned


def source_of(tenant: str, method: str, route: str) -> str:
    """The source of a request. A hash where it would be too long: cut, it could be that of another tenant."""
    source = "/".join(urllib.parse.quote(part, safe="") for part in (tenant, method, route))
    return source if len(source) <= _SOURCE_MAX else hashlib.sha256(source.encode()).hexdigest()


def ending(settings: Settings, answer: Answer, announced: bool) -> Optional[Steer]:
    """How the claim of an answered request is settled; `None`: as completed."""
    rule = settings.rule(answer.status)
    if rule is Rule.FAIL:
        return failure(f"status {answer.status}", announced)
    if rule is Rule.RELEASE and not announced:
        return GiveBack(f"status {answer.status}", unpin_fingerprint=True)
    return None


def failure(reason: str, announced: bool) -> Steer:
    """How the claim of a request is settled whose effect is unknown."""
    return Park(reason) if announced else Retry(reason, after=0)


def stored(settings: Settings, answer: Answer, complete: bool) -> bytes:
    """What the ledger stores of an answer: a line of JSON, then the body, unless it is too large or incomplete."""
    kept = [pair for pair in answer.headers if pair[0] in settings.kept_headers]
    whole = json.dumps([answer.status, kept]).encode() + b"\n" + answer.body
    if complete and len(whole) <= settings.result_max:
        return whole
    return json.dumps([answer.status, kept, "omitted"]).encode()


def replayed(outcome: Outcome) -> Tuple[Answer, bool]:
    """The answer to a repeat, and whether its body is left out. The effect happened also where no result is stored."""
    head, _, body = (outcome.result or b'[200, [], "omitted"]').partition(b"\n")
    status, kept, *omitted = json.loads(head)
    headers = [(str(name), str(value)) for name, value in kept]
    headers.append(("idempotency-replayed", "true"))
    if omitted:
        headers.append(("idempotency-body", "omitted"))
    return Answer(int(status), headers, body), bool(omitted)


def refused(outcome: Outcome) -> Answer:
    """The answer where there is none of the application: it did not run, or its claim was lost amid it."""
    if outcome.reason == "fingerprint_mismatch":
        return problem(422, "this Idempotency-Key was used with another body")
    if outcome.advice is Advice.DEAD_LETTER:
        return problem(500, "an earlier request may have had its effect: a person must find out")
    if outcome.reason in ("in_progress", "backoff"):
        return problem(409, "the first request with this Idempotency-Key is not done yet", outcome.delay)
    return problem(503, "whether this request was processed cannot be known now: repeat it", outcome.delay)


def problem(status: int, title: str, retry_after: float = 0.0) -> Answer:
    """An answer of the middleware itself (RFC 9457)."""
    headers = [("content-type", "application/problem+json")]
    if retry_after:
        headers.append(("retry-after", str(math.ceil(retry_after))))
    return Answer(status, headers, json.dumps({"title": title, "status": status}).encode())


MALFORMED = problem(400, "Idempotency-Key must be there once: 1 to 255 visible ASCII characters, or a quoted string")
MISSING = problem(400, "this request needs the header Idempotency-Key")
CLOSING = problem(503, "this server is shutting down", 1)


def sent_headers(answer: Answer) -> Headers:
    """The headers as they are sent: the length is that of the body."""
    headers = [pair for pair in answer.headers if pair[0] not in ("content-length", "transfer-encoding")]
    return headers if answer.status in _NO_BODY else [*headers, ("content-length", str(len(answer.body)))]


class Exchange:
    """One request under way: what the application has answered or raised, and what its claim came to."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._answer: Optional[Answer] = None
        self._error: Optional[Exception] = None

    def failed(self, error: Exception, announced: bool) -> Steer:
        """The application has raised an error, which the server gets after the claim is settled."""
        self._error = error
        return failure(type(error).__name__, announced)

    def answered(self, answer: Answer, whole: bool, announced: bool) -> bytes:
        """The application has answered. Returns what is stored of it, or raises how its claim is settled."""
        self._answer = answer
        steer = ending(self._settings, answer, announced)
        if steer:
            raise steer
        return stored(self._settings, answer, whole)

    def final(self, outcome: Outcome) -> Tuple[Answer, bool]:
        """The answer to the client, and whether it must be read again. Raises the error of the application.

        What the application has answered is sent whatever became of its claim: the effect happened.
        """
        if self._error is not None:
            raise self._error
        if self._answer is not None:
            return self._answer, False
        if not outcome.replayed:
            return refused(outcome), False
        answer, omitted = replayed(outcome)
        return answer, omitted and self._settings.reread is not None


def marked(answer: Answer) -> Answer:
    """An answer that was read again, marked as that to a repeat."""
    return Answer(answer.status, [*answer.headers, ("idempotency-replayed", "true")], answer.body)


class Collected:
    """The answer of an application, as it arrives."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parts: List[bytes] = []
        self._size = 0
        self.status = 0
        self.headers: Headers = []

    def part(self, body: bytes) -> None:
        """A part of the body; nothing is kept of a body that is too large."""
        self._size += len(body)
        self._parts = [*self._parts, body] if self._size <= self._settings.answer_max else []

    def answer(self) -> Tuple[Answer, bool]:
        """The answer, and whether its body is whole."""
        whole = self._size <= self._settings.answer_max
        headers = self.headers if whole else [*self.headers, ("idempotency-body", "omitted")]
        return Answer(self.status, headers, b"".join(self._parts)), whole
