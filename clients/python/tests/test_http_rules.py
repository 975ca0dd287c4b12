"""The table of the middleware, as far as it needs no server: keys, sources, endings, stored and repeated answers."""

from __future__ import annotations

import asyncio
import io
from typing import Any, Dict, List, Optional

import pytest

from idempotency_ledger import Advice, GiveBack, InvalidField, Outcome, Park, Retry
from idempotency_ledger.http import Answer, ASGIMiddleware, Rule, Settings, WSGIMiddleware, _rules, default_rule

CREATED = Answer(201, [("content-type", "text/plain"), ("location", "/1"), ("set-cookie", "secret")], b"created\n\n")


@pytest.mark.parametrize(
    ("values", "key"),
    [
        (["abc"], "abc"),
        (['"abc"'], "abc"),
        (['"a b,c"'], "a b,c"),
        ([r'"a\"b\\c"'], 'a"b\\c'),
        (["x" * 255], "x" * 255),
        (["8e03978e-40d5-43dd-bc93-6894a57f9324"], "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ([], None),
        (["a", "a"], None),
        ([""], None),
        (['""'], None),
        (["x" * 256], None),
        (["a b"], None),
        (["a,b"], None),
        (['"a'], None),
        (['"a";p=1'], None),
        (["é"], None),
        (["a\tb"], None),
    ],
)
def test_key_of_a_request(values: List[str], key: Optional[str]) -> None:
    assert _rules.key_of(values) == key


@pytest.mark.parametrize(
    ("parts", "source"),
    [
        (("", "POST", "/orders"), "/POST/%2Forders"),
        (("a/b", "POST", "/x y"), "a%2Fb/POST/%2Fx%20y"),
        (("é", "POST", ""), "%C3%A9/POST/"),
    ],
)
def test_source_of_a_request(parts: tuple[str, str, str], source: str) -> None:
    assert _rules.source_of(*parts) == source


def test_long_source_is_hashed() -> None:
    sources = {_rules.source_of("t" * 300 + end, "POST", "/") for end in "ab"}
    assert [len(source) for source in sources] == [64, 64]
    assert len(_rules.source_of("t" * 247, "POST", "/")) == 256


class _NoLedger:
    """Stands for a ledger to which nothing may be sent."""

    def process(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the request was sent to the ledger")


def _asgi(settings: Settings) -> None:
    async def receive() -> Dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(event: Dict[str, Any]) -> None:
        raise AssertionError(f"the middleware has answered {event}")

    async def app(*_: Any) -> None:
        raise AssertionError("the application runs")

    ledger: Any = _NoLedger()
    scope = {"type": "http", "method": "POST", "path": "/orders", "headers": [(b"idempotency-key", b"k")]}
    asyncio.run(ASGIMiddleware(app, ledger, settings)(scope, receive, send))


def _wsgi(settings: Settings) -> None:
    def app(*_: Any) -> List[bytes]:
        raise AssertionError("the application runs")

    ledger: Any = _NoLedger()
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/orders",
        "HTTP_IDEMPOTENCY_KEY": "k",
        "CONTENT_LENGTH": "2",
        "wsgi.input": io.BytesIO(b"{}"),
    }
    WSGIMiddleware(app, ledger, settings)(environ, lambda *_: None)


@pytest.mark.parametrize("call", [_asgi, _wsgi])
@pytest.mark.parametrize(("setting", "returned"), [("tenant", None), ("tenant", 7), ("tenant", b"a"), ("route", None)])
def test_tenant_that_is_not_text_is_refused_and_nothing_is_sent(call: Any, setting: str, returned: Any) -> None:
    changed: Any = {setting: lambda _: returned}
    with pytest.raises(
        InvalidField, match=f"must return text for each request, not {type(returned).__name__}"
    ) as found:
        call(Settings(**changed))
    assert found.value.field == setting


@pytest.mark.parametrize(
    ("statuses", "rule"),
    [
        ((200, 201, 204, 301, 303, 402, 405, 410, 418, 451), Rule.STORE),
        ((400, 401, 403, 404, 409, 422, 429), Rule.RELEASE),
        ((500, 502, 503, 599), Rule.FAIL),
    ],
)
def test_default_rule(statuses: List[int], rule: Rule) -> None:
    assert {default_rule(status) for status in statuses} == {rule}


@pytest.mark.parametrize(
    ("status", "announced", "steer", "unpins"),
    [
        (201, False, None, False),
        (422, False, GiveBack, True),
        (422, True, None, False),
        (500, False, Retry, False),
        (500, True, Park, False),
    ],
)
def test_ending_of_a_request(status: int, announced: bool, steer: Optional[type], unpins: bool) -> None:
    found = _rules.ending(Settings(), Answer(status, []), announced)
    assert (type(found) if found else None) == steer
    assert getattr(found, "unpin_fingerprint", False) == unpins
    if isinstance(found, Retry):
        assert found.after == 0


@pytest.mark.parametrize(
    ("settings", "whole", "body", "omitted"),
    [
        (Settings(), True, b"created\n\n", False),
        (Settings(), False, b"", True),
        (Settings(result_max=40), True, b"", True),
    ],
)
def test_stored_answer_comes_back(settings: Settings, whole: bool, body: bytes, omitted: bool) -> None:
    result = _rules.stored(settings, CREATED, whole)
    assert b"secret" not in result
    answer, left_out = _rules.replayed(Outcome(Advice.ACK, result=result, replayed=True))
    assert (answer.status, answer.body, left_out) == (201, body, omitted)
    assert dict(answer.headers) == {
        "content-type": "text/plain",
        "location": "/1",
        "idempotency-replayed": "true",
        **({"idempotency-body": "omitted"} if omitted else {}),
    }


@pytest.mark.parametrize("result", [None, b""])
def test_effect_without_a_stored_answer_is_a_success(result: Optional[bytes]) -> None:
    answer, omitted = _rules.replayed(Outcome(Advice.ACK, result=result, replayed=True, result_dropped=True))
    assert (answer.status, answer.body, omitted) == (200, b"", True)


@pytest.mark.parametrize(
    ("outcome", "status", "retry_after"),
    [
        (Outcome(Advice.DEAD_LETTER, reason="fingerprint_mismatch"), 422, None),
        (Outcome(Advice.DEAD_LETTER, reason="parked"), 500, None),
        (Outcome(Advice.DEAD_LETTER, reason="PRIOR_EFFECT_STARTED"), 500, None),
        (Outcome(Advice.RETRY_LATER, 2.1, reason="in_progress"), 409, "3"),
        (Outcome(Advice.RETRY_LATER, 1.0, reason="backoff"), 409, "1"),
        (Outcome(Advice.RETRY_LATER, 0.05, reason="NO_ANSWER (UNAVAILABLE)"), 503, "1"),
        (Outcome(Advice.RETRY_LATER, 30.0, reason="CONSUMER_DISABLED"), 503, "30"),
        (Outcome(Advice.RETRY_LATER, 1.0, reason="LEASE_LOST"), 503, "1"),
        (Outcome(Advice.ACK, reason="suppressed"), 503, None),
    ],
)
def test_answer_without_the_application(outcome: Outcome, status: int, retry_after: Optional[str]) -> None:
    answer = _rules.refused(outcome)
    headers = dict(answer.headers)
    assert (answer.status, headers.get("retry-after")) == (status, retry_after)
    assert headers["content-type"] == "application/problem+json"


def test_answer_that_is_too_large_for_memory_is_left_out() -> None:
    collected = _rules.Collected(Settings(answer_max=10))
    collected.status, collected.headers = 200, [("content-type", "text/plain")]
    for part in (b"12345", b"67890"):
        collected.part(part)
    assert collected.answer() == (Answer(200, [("content-type", "text/plain")], b"1234567890"), True)
    collected.part(b"1")
    answer, whole = collected.answer()
    assert (answer.body, whole, answer.headers[-1]) == (b"", False, ("idempotency-body", "omitted"))


@pytest.mark.parametrize(
    ("answer", "length"),
    [
        (Answer(200, [("Content-Length".lower(), "99"), ("transfer-encoding", "chunked")], b"abc"), "3"),
        (Answer(204, []), None),
        (Answer(304, []), None),
    ],
)
def test_length_is_that_of_the_body(answer: Answer, length: Optional[str]) -> None:
    headers = dict(_rules.sent_headers(answer))
    assert headers.get("content-length") == length
    assert "transfer-encoding" not in headers
