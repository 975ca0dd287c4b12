"""The middleware of examples/http before an application: each case of `Idempotency-Key`, against a real server.

The test is the ASGI server: Python's standard library has all that it needs.
"""

import asyncio
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples" / "http"))

import ledger
from idempotency import Idempotency

POLICY = '[policy]\nlease = "1s"\nreclaim_grace = "0s"\nbackoff = { initial = "0s", max = "0s" }\n'
PATIENCE = 20


class Shop:
    """An application. The body of a request says what it does."""

    def __init__(self):
        self.effects, self.begun, self.go, self.ended, self.takes = [], asyncio.Event(), asyncio.Event(), [], 0

    async def __call__(self, scope, receive, send):
        event = await receive()
        asked = json.loads(event["body"])
        status, body = 201, b'{"paid": true}'
        if asked.get("announce"):
            await scope["idempotency"].announce()
        if asked.get("invalid"):
            status, body = 422, b'{"paid": "invalid"}'
        else:
            self.effects.append(asked)
        if asked.get("wait"):
            self.begun.set()
            try:
                await self.go.wait()
                await asyncio.sleep(self.takes)
            except asyncio.CancelledError:
                self.ended.append(asked)
                raise
        if asked.get("crash"):
            raise RuntimeError("crashed")
        if asked.get("broken"):
            status = 503
        if asked.get("bytes"):
            body = b"x" * asked["bytes"]
        headers = [(b"Content-Type", b"application/json"), (b"location", b"/orders/1"), (b"set-cookie", b"secret")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body[:5], "more_body": True})
        await send({"type": "http.response.body", "body": body[5:]})


class Answer:
    def __init__(self, events):
        start, *bodies = events
        self.status = start["status"]
        names = [name.lower() for name, _ in start["headers"]]
        assert len(names) == len(set(names)), names
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        self.body = b"".join(event["body"] for event in bodies)
        assert self.headers.get("content-length", str(len(self.body))) == str(len(self.body))

    def says(self, status, **headers):
        assert self.status == status, vars(self)
        for name, value in headers.items():
            assert self.headers.get(name.replace("_", "-")) == value, vars(self)
        return self

    def is_problem(self, status):
        assert "title" in json.loads(self.body), vars(self)
        return self.says(status, content_type="application/problem+json")


async def ask(app, body, *keys, method="POST", tenant=""):
    """A request as an ASGI server hands it over: the body in two parts."""
    sent, events = json.dumps(body).encode(), []
    parts = [{"type": "http.request", "body": sent[:3], "more_body": True}, {"type": "http.request", "body": sent[3:]}]

    async def receive():
        return parts.pop(0)

    async def send(event):
        events.append(event)

    headers = [(b"idempotency-key", key.encode()) for key in keys]
    await app({"type": "http", "method": method, "path": "/pay", "tenant": tenant, "headers": headers}, receive, send)
    return Answer(events)


class Server:
    """An ephemeral server, on ports that the system chose."""

    def __init__(self, binary, folder):
        config = folder / "policy.toml"
        config.write_text(POLICY)
        zero = "127.0.0.1:0"
        command = [binary, "serve", "--ephemeral", "--config", config, "--listen", zero, "--http-listen", zero]
        self.process = subprocess.Popen([*command, "--observe-listen", "off", "--log", "error"],
                                        stdout=subprocess.PIPE, text=True, cwd=folder)
        self.address = json.loads(self.process.stdout.readline())["http_listen"]

    def before(self, app, **more):
        return Idempotency(app, "shop", self.address, tenant=lambda scope: scope["tenant"], **more)

    def end(self):
        self.process.kill()
        self.process.wait()


async def first_and_again(server):
    """first, and again: the same answer without the application"""
    shop = Shop()
    app = server.before(shop)
    first = (await ask(app, {}, "one")).says(201, location="/orders/1", set_cookie="secret", idempotency_replayed=None)
    for key in ("one", '"one"'):
        again = (await ask(app, {}, key)).says(201, location="/orders/1", content_type="application/json",
                                               idempotency_replayed="true", idempotency_body=None, set_cookie=None)
        assert again.body == first.body == b'{"paid": true}'
    assert len(shop.effects) == 1
    (await ask(app, {}, "one", tenant="another")).says(201, idempotency_replayed=None)
    (await ask(app, {}, "one", method="PATCH")).says(201, idempotency_replayed=None)
    assert len(shop.effects) == 3, "another tenant and another method are another request"


async def in_progress(server):
    """again, in progress beyond the wait: 409, and never a second effect, however long the first one takes"""
    shop = Shop()
    app = server.before(shop, wait=0.2)
    first = asyncio.ensure_future(ask(app, {"wait": 1}, "slow"))
    await shop.begun.wait()
    for _ in range(5):  # The lease is one second.
        early = (await ask(app, {"wait": 1}, "slow")).is_problem(409)
        assert early.headers["retry-after"] == "1", vars(early)
        await asyncio.sleep(0.5)
    shop.go.set()
    (await first).says(201)
    (await ask(app, {"wait": 1}, "slow")).says(201, idempotency_replayed="true")
    assert len(shop.effects) == 1


async def waits(server):
    """again, in progress: waits for the first answer; where the first one fails, one of those that wait runs"""
    shop = Shop()
    app = server.before(shop)
    first = asyncio.ensure_future(ask(app, {"wait": 1}, "waits"))
    await shop.begun.wait()
    repeats = [asyncio.ensure_future(ask(app, {"wait": 1}, "waits")) for _ in range(3)]
    await asyncio.sleep(1.5)  # Longer than the lease.
    assert not any(repeat.done() for repeat in repeats), "they wait"
    shop.go.set()
    (await first).says(201, idempotency_replayed=None)
    for repeat in repeats:
        (await repeat).says(201, idempotency_replayed="true")
    assert len(shop.effects) == 1
    # The first one is broken, and each of those that wait is granted the key in its turn, under its own lease.
    shop.go.clear(), shop.begun.clear()
    shop.takes = 0.5
    asked = {"wait": 1, "broken": 1}
    first = asyncio.ensure_future(ask(app, asked, "fails"))
    await shop.begun.wait()
    repeats = [asyncio.ensure_future(ask(app, asked, "fails")) for _ in range(2)]
    await asyncio.sleep(1.5)
    assert len(shop.effects) == 2 and not any(repeat.done() for repeat in repeats)
    shop.go.set()
    for answer in (first, *repeats):
        assert (await answer).says(503).body == b'{"paid": true}', "the application's own answer"
    assert len(shop.effects) == 4


async def another_body(server):
    """another body: 422"""
    shop = Shop()
    app = server.before(shop)
    (await ask(app, {"order": 1}, "body")).says(201)
    (await ask(app, {"order": 2}, "body")).is_problem(422)
    assert shop.effects == [{"order": 1}]


async def missing_and_malformed(server):
    """header missing or malformed: 400; not required, or a GET: passed on"""
    shop = Shop()
    app = server.before(shop)
    for keys in ((), ("",), ("a b",), ("one", "one"), ("x" * 256,), ("caf\u00e9",), ('"half',), ('""',), ("a\tb",)):
        (await ask(app, {}, *keys)).is_problem(400)
    assert not shop.effects
    (await ask(server.before(shop, required=False), {})).says(201)
    (await ask(app, {}, method="GET")).says(201)
    (await ask(server.before(shop, body_max=10), {"order": "x" * 20}, "long")).is_problem(413)
    assert len(shop.effects) == 2


async def corrected(server):
    """an invalid request that had no effect, corrected and sent under the same key: runs"""
    shop = Shop()
    app = server.before(shop)
    assert (await ask(app, {"invalid": 1}, "corrected")).says(422).body == b'{"paid": "invalid"}'
    (await ask(app, {"order": 1}, "corrected")).says(201, idempotency_replayed=None)
    (await ask(app, {"order": 1}, "corrected")).says(201, idempotency_replayed="true")
    (await ask(app, {"invalid": 1}, "corrected")).is_problem(422)
    assert shop.effects == [{"order": 1}]
    # Once an effect was announced, its answer is an answer, whatever its status is.
    (await ask(app, {"invalid": 1, "announce": 1}, "announced")).says(422, idempotency_replayed=None)
    (await ask(app, {"invalid": 1, "announce": 1}, "announced")).says(422, idempotency_replayed="true")


async def large(server):
    """an answer larger than the limit: completed all the same, and a repeat says that its body is not there"""
    for key, more, status in (("large", {}, 201), ("dropped", {"result_max": 1 << 20}, 200)):
        shop = Shop()
        app = server.before(shop, **more)
        assert len((await ask(app, {"bytes": 20_000}, key)).says(201).body) == 20_000
        for _ in range(2):
            again = (await ask(app, {"bytes": 20_000}, key)).says(status, idempotency_replayed="true",
                                                                  idempotency_body="omitted")
            assert again.body == b""
        assert len(shop.effects) == 1


async def failures(server):
    """5xx and exceptions: the next request runs; once announced, never again without a person"""
    shop = Shop()
    app = server.before(shop)
    (await ask(app, {"broken": 1}, "broken")).says(503)
    (await ask(app, {"broken": 1}, "broken")).says(503, idempotency_replayed=None)
    assert len(shop.effects) == 2
    for key, announce, effects in (("crash", 0, 4), ("announced crash", 1, 5)):
        key = key.replace(" ", "-")
        for _ in range(2):
            try:
                (await ask(app, {"crash": 1, "announce": announce}, key)).is_problem(500)
            except RuntimeError as error:
                assert str(error) == "crashed"
        assert len(shop.effects) == effects, (key, len(shop.effects))


async def died(server):
    """a process that died after it had announced the effect: no repeat has it again"""
    shop = Shop()
    app = server.before(shop)
    name = {"consumer": "shop", "source": "/POST/%2Fpay", "id": "died"}
    found = await app.ledger.call("Claim", 5, key=name, claimId="0c5f5ea6-4c8b-4f5c-8f0f-3d2f0e9b7a11")
    await ledger.Held(app.ledger, name, found["acquired"], asyncio.get_running_loop().time()).announce()
    answer = await ask(app, {}, "died")
    until = asyncio.get_running_loop().time() + PATIENCE
    while answer.status == 409 and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(0.1)
        answer = await ask(app, {}, "died")
    answer.is_problem(500)
    assert not shop.effects


async def client_gone(server):
    """a client that goes away does not interrupt the effect"""
    shop = Shop()
    app = server.before(shop)
    first = asyncio.ensure_future(ask(app, {"wait": 1}, "gone"))
    await shop.begun.wait()
    first.cancel()
    await asyncio.wait([first])
    shop.go.set()
    await asyncio.wait(list(app.ledger.working))
    (await ask(app, {"wait": 1}, "gone")).says(201, idempotency_replayed="true")
    assert len(shop.effects) == 1 and not shop.ended


async def away(server, binary, folder):
    """the ledger is away: 503, nothing runs; away amid the request: the answer of an effect that is done stands"""
    shop = Shop()
    ledger.CLAIM_WITHIN, ledger.SETTLE_WITHIN = 1, 1
    gone = Server(binary, folder)
    app, lost = gone.before(shop), asyncio.ensure_future(ask(gone.before(shop), {"wait": 1}, "lost"))
    await shop.begun.wait()
    done = Shop()
    settles = asyncio.ensure_future(ask(gone.before(done), {"wait": 1}, "settles"))
    await done.begun.wait()
    gone.end()
    done.go.set()
    (await settles).says(201)
    (await lost).is_problem(503)
    assert shop.ended == [{"wait": 1}], "the work ends with its claim"
    refused = (await ask(app, {}, "away")).is_problem(503)
    assert refused.headers["retry-after"] == "1" and len(shop.effects) == 1


async def main(binary):
    with tempfile.TemporaryDirectory(prefix="ledger-test-") as folder:
        folder = pathlib.Path(folder)
        server = Server(binary, folder)
        try:
            cases = (first_and_again, in_progress, waits, another_body, missing_and_malformed, corrected, large, failures, died,
                     client_gone)
            for case, ended in zip(cases, await asyncio.gather(*(case(server) for case in cases), return_exceptions=True)):
                if ended:
                    raise AssertionError(case.__doc__) from ended
                print(f"ok: {case.__doc__}")
            await away(server, binary, folder)
            print(f"ok: {away.__doc__}")
        finally:
            server.end()


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(sys.argv[1]), 60))
