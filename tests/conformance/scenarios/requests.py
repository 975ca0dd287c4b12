"""Requests with an Idempotency-Key: each row of the table of the middleware."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
from dataclasses import dataclass
from typing import Any

from scene import ANNOUNCE, EFFECT, PAUSE, Scene, check, scenario, step
from subject import Event, Subject

CREATED = step("answer", status=201, body="created")


@dataclass
class Reply:
    """An answer, with its headers in lower case."""

    status: int
    headers: dict[str, str]
    body: str

    def replayed(self) -> bool:
        """It is marked as the answer of an earlier request."""
        return self.headers.get("idempotency-replayed") == "true"


class Site:
    """A subject that serves HTTP."""

    def __init__(self, s: Scene, consumer: str = "effects", **settings: Any) -> None:
        self.subject: Subject = s.subject(opened=False)
        self.subject.send("serve", endpoint=s.proxy.address, consumer=consumer, **settings)
        self.address = self.subject.wait_for("serving")["address"]

    def connection(self) -> http.client.HTTPConnection:
        """A new connection."""
        host, _, port = self.address.partition(":")
        return http.client.HTTPConnection(host, int(port), timeout=40)

    def post(self, key: str | None, *steps: Event, body: str = "{}", call: str = "", path: str = "/orders",
             tenant: str = "", method: str = "POST") -> Reply:
        """A request, and its answer."""
        connection = self.connection()
        try:
            connection.request(method, path, body, headers(key, steps, call or key or "", tenant))
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read().decode())
        finally:
            connection.close()


def headers(key: str | None, steps: tuple[Event, ...], call: str, tenant: str = "") -> dict[str, str]:
    """The headers of a request."""
    found = {"X-Steps": json.dumps(steps), "X-Call": call, "X-Tenant": tenant}
    return found if key is None else {**found, "Idempotency-Key": key}


@scenario(1, 20)
def http_first_and_again(s: Scene) -> None:
    site, key = Site(s), s.new_id()
    first = site.post(key, EFFECT, CREATED)
    check((first.status, first.body) == (201, "created") and not first.replayed(), f"first: {first}")
    check(first.headers["x-private"] == "not stored", f"first: {first}")
    again = site.post(f'"{key}"', EFFECT, CREATED)
    check((again.status, again.body) == (201, "created") and again.replayed(), f"again: {again}")
    check(again.headers["location"] == "/orders/1" and "x-private" not in again.headers, f"again: {again}")
    s.effects(key)


@scenario(20)
def http_other_body(s: Scene) -> None:
    site, key = Site(s), s.new_id()
    site.post(key, EFFECT, CREATED)
    other = site.post(key, EFFECT, CREATED, body="{ }")
    check(other.status == 422, f"another body: {other}")
    check(other.headers["content-type"] == "application/problem+json", f"another body: {other}")
    s.effects(key)


@scenario(12, 23)
def http_statuses(s: Scene) -> None:
    site = Site(s)
    for status in (400, 401, 403, 404, 409, 422, 429):
        key = s.new_id()
        refused = site.post(key, step("answer", status=status), body="wrong")
        check(refused.status == status, f"{status}: {refused}")
        corrected = site.post(key, EFFECT, CREATED, body="right")
        check(corrected.status == 201 and not corrected.replayed(), f"corrected after {status}: {corrected}")
        s.effects(key)
    for status in (200, 302, 402, 418):
        key = s.new_id()
        site.post(key, EFFECT, step("answer", status=status, body="stored"))
        again = site.post(key, EFFECT, CREATED)
        check(again.status == status and again.replayed(), f"again after {status}: {again}")
        s.effects(key)
    for failing in (step("answer", status=500), step("answer", status=503), step("raise")):
        key = s.new_id()
        failed = site.post(key, failing)
        check(failed.status >= 500 and not failed.replayed(), f"{failing}: {failed}")
        check(s.proxy.of("Fail", key)[0].request.kind == 1, "it was not failed as retryable")
        check(site.post(key, EFFECT, CREATED).status == 201, f"again after {failing}")
        s.effects(key)


@scenario(14, 16)
def http_announced(s: Scene) -> None:
    site = Site(s, "parking")
    key = s.new_id()
    site.post(key, ANNOUNCE, EFFECT, step("answer", status=422, body="stored"))
    again = site.post(key, EFFECT, CREATED)
    check(again.status == 422 and again.replayed(), f"a 422 after an announcement: {again}")
    s.effects(key)
    for failing in (step("answer", status=500), step("raise")):
        key = s.new_id()
        check(site.post(key, ANNOUNCE, EFFECT, failing).status == 500, f"{failing}")
        check(s.proxy.of("Fail", key)[0].request.kind == 3, "it was not parked")
        again = site.post(key, EFFECT, CREATED)
        check(again.status == 500 and "person" in again.body, f"again after {failing}: {again}")
        s.effects(key)


@scenario(10)
def http_in_progress(s: Scene) -> None:
    site, key = Site(s, wait=0.3), s.new_id()
    patient = Site(s, wait=8)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(site.post, key, PAUSE, EFFECT, CREATED)
        site.subject.wait_for("paused", key)
        busy = site.post(key, EFFECT, CREATED)
        claims = len(s.proxy.of("Claim", key))
        second = pool.submit(patient.post, key, EFFECT, CREATED)
        s.proxy.wait_for("Claim", claims + 1, key)
        site.subject.send("go", call=key)
        replies = [first.result(), second.result()]
    check(busy.status == 409 and int(busy.headers["retry-after"]) >= 1, f"in progress: {busy}")
    check([reply.status for reply in replies] == [201, 201], f"the answers are {replies}")
    check(sorted(reply.replayed() for reply in replies) == [False, True], f"the answers are {replies}")
    s.effects(key)


@scenario(5)
def http_keys(s: Scene) -> None:
    site, optional = Site(s), Site(s, required=False)
    for key in (None, "", "a b", "a,b", '"a', "x" * 256, '"a";b', "\u00fc"):
        answer = site.post(key, EFFECT, CREATED, call="none")
        check(answer.status == 400, f"the key {key!r} is answered {answer}")
    check(not s.proxy.calls, "a malformed key was sent")
    s.effects("none", 0)
    passed = s.new_id()
    check(optional.post(None, EFFECT, CREATED, call=passed).status == 201, "a request without a key")
    check(site.post(None, EFFECT, CREATED, call=passed, method="PUT").status == 201, "a method that needs no key")
    check(s.sink.count("plain", passed) == 2 and not s.proxy.calls, "it was claimed")
    check(optional.post("a b", EFFECT, CREATED, call="none").status == 400, "a malformed key where none is required")


@scenario(21, 22)
def http_too_large_an_answer(s: Scene) -> None:
    site, rereading, key = Site(s), Site(s, reread=True), s.new_id()
    first = site.post(key, EFFECT, step("answer", status=201, bytes=20_000))
    check(first.status == 201 and len(first.body) == 20_000, f"the first answer has {len(first.body)} bytes")
    again = site.post(key, EFFECT, CREATED)
    check(again.status == 201 and again.body == "" and again.replayed(), f"again: {again}")
    check(again.headers["idempotency-body"] == "omitted", f"again: {again}")
    check(again.headers["location"] == "/orders/1", f"again: {again}")
    read = rereading.post(key, EFFECT, CREATED)
    check(read.status == 200 and read.body == "read again" and read.replayed(), f"read again: {read}")
    refused = s.new_id()
    s.fault("Complete", "refuse", code="INVALID_ARGUMENT", reason="TOO_LARGE", id=refused)
    check(site.post(refused, EFFECT, CREATED).status == 201, "a Complete that was too large")
    again = site.post(refused, EFFECT, CREATED)
    check(again.status == 200 and again.headers["idempotency-body"] == "omitted", f"again: {again}")
    s.effects(key)
    s.effects(refused)


@scenario(3)
def http_ledger_away(s: Scene) -> None:
    site, key = Site(s), s.new_id()
    s.fault("Claim", "refuse", code="UNAVAILABLE", reason="STORE_UNAVAILABLE", retry_after_ms=60_000, id=key)
    away = site.post(key, EFFECT, CREATED)
    check(away.status == 503 and int(away.headers["retry-after"]) == 60, f"the ledger is away: {away}")
    s.effects(key, 0)
    lost = s.new_id()
    s.fault("Complete", "refuse", code="INTERNAL", reason="INTERNAL", id=lost)
    done = site.post(lost, EFFECT, CREATED)
    check(done.status == 201, f"an effect that is done, whose Complete is not confirmed, is answered {done}")
    s.effects(lost)


@scenario(1)
def http_tenants_and_routes(s: Scene) -> None:
    site, key = Site(s), s.new_id()
    asked = [("a", "/orders"), ("b", "/orders"), ("a", "/orders/x"), ("", "/a/orders"), ("a/", "/orders")]
    asked += [(f"{'t' * 300}{name}", "/orders") for name in "12"]
    for tenant, path in asked:
        answer = site.post(key, EFFECT, CREATED, tenant=tenant, path=path, call=f"{key}-{tenant}-{path}")
        check(answer.status == 201 and not answer.replayed(), f"{tenant[-9:]!r} {path}: {answer}")
    sources = {call.request.key.source for call in s.proxy.of("Claim", key)}
    check(len(sources) == len(asked), f"the sources are {sources}")
    check("a/POST/%2Forders" in sources, f"the sources are {sources}")


@scenario(18)
def http_client_goes_away(s: Scene) -> None:
    site, key = Site(s), s.new_id()
    connection = site.connection()
    connection.request("POST", "/orders", "{}", headers(key, (PAUSE, EFFECT, CREATED), key))
    site.subject.wait_for("paused", key)
    connection.close()
    site.subject.send("go", call=key)
    s.proxy.wait_for("Complete", 1, key)
    again = site.post(key, EFFECT, CREATED)
    check(again.status == 201 and again.replayed(), f"again: {again}")
    s.effects(key)


@scenario(5)
def http_too_large_a_request(s: Scene) -> None:
    site, key = Site(s, body_max=100), s.new_id()
    check(site.post(key, EFFECT, CREATED, body="x" * 101).status == 413, "a body that is too large")
    check(site.post(key, EFFECT, CREATED, body="x" * 100).status == 201, "a body of the largest size")
    s.effects(key)


@scenario(17, needs="cancels")
def http_lost_claim(s: Scene) -> None:
    site, key = Site(s), s.new_id()
    s.fault("Renew", "refuse", code="ABORTED", reason="LEASE_LOST", id=key)
    answer = site.post(key, PAUSE, EFFECT, CREATED)
    check(answer.status == 503 and int(answer.headers["retry-after"]) >= 1, f"a lost claim: {answer}")
    s.effects(key, 0)
