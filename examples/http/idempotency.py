"""ASGI middleware for `Idempotency-Key`: a repeated request gets the first answer, and its effect happens once."""

import hashlib
import re
import urllib.parse

from answers import called, problem, replayed, request_body, send_answer, stored
from ledger import Away, Ledger, Lost, seconds

KEY = re.compile(rb'([!#-~]{1,255})|"([!#-~]{1,255})"')
NO_EFFECT = {400, 401, 403, 404, 409, 422, 429}  # The key is free again, also for a corrected body.


class Idempotency:
    def __init__(self, app, api, ledger, tenant=lambda scope: "", required=True, body_max=1 << 20, result_max=16_384, wait=5):
        self.app, self.api, self.tenant, self.required = app, api, tenant, required
        self.ledger = Ledger(ledger, wait=wait)  # How long a repeat waits for the first answer, in seconds.
        self.body_max, self.result_max = body_max, result_max

    async def __call__(self, scope, receive, send):
        sent = [value for name, value in scope.get("headers", ()) if name == b"idempotency-key"]
        if scope["type"] != "http" or scope["method"] not in ("POST", "PATCH") or not (sent or self.required):
            return await self.app(scope, receive, send)
        await send_answer(send, await self.answer(scope, receive, sent))

    async def answer(self, scope, receive, sent):
        key = KEY.fullmatch(sent[0]) if len(sent) == 1 else None
        if not key:
            return problem(400, "Idempotency-Key must be there once, with 1 to 255 visible characters of ASCII")
        body = await request_body(receive, self.body_max)
        if body is None:
            return problem(413, f"a body may have {self.body_max} bytes")
        parts = (self.tenant(scope), scope["method"], scope["path"])
        source = "/".join(urllib.parse.quote(part, safe="") for part in parts)
        source = source if len(source) <= 256 else hashlib.sha256(source.encode()).hexdigest()
        name = {"consumer": self.api, "source": source, "id": (key[1] or key[2]).decode()}
        try:
            found = await self.ledger.process(name, body, lambda held: self.first(held, scope, receive, body))
        except (Away, Lost) as error:
            return problem(503, str(error), error.after)
        match found:
            case {"done": answer}:
                return answer
            case {"completed": done}:
                return replayed(done.get("result", ""))
            case {"fingerprintMismatch": _}:
                return problem(422, "this Idempotency-Key was used with another body")
            case {"advice": "ADVICE_DEAD_LETTER"}:
                return problem(500, "an earlier request may have had its effect: a person must find out")
        return problem(409, "the first request is not done yet", max(1, seconds(found.get("retryAfter", "1s"))))

    async def first(self, held, scope, receive, body):
        status, _, _ = answer = await called(self.app, {**scope, "idempotency": held}, receive, body)
        if status >= 500:
            return answer, held.failure(f"status {status}")
        if status in NO_EFFECT and not held.announced:
            return answer, ("Release", {"unpinFingerprint": True})
        return answer, ("Complete", {"result": stored(answer, self.result_max)})
