"""A client of the ledger's HTTP port, with the standard library alone: calls that are repeated, claims that are renewed."""

import asyncio
import base64
import hashlib
import http.client
import io
import json
import logging
import time
import uuid

log = logging.getLogger(__name__)
SERVICE = "/idempotency.ledger.v1.LedgerService/"
ANSWER_WITHIN, CLAIM_WITHIN, SETTLE_WITHIN = 5, 10, 30
ANSWER_BYTES_MAX = 16 << 20


class Away(Exception):
    """No final answer arrived, and nothing was done. `after`: when to ask again, in seconds."""

    def __init__(self, after=1):
        super().__init__("the ledger cannot answer, and nothing was done")
        self.after = after


class Refused(Exception):
    """The ledger has refused a call, and would refuse it again."""


class Lost(Exception):
    """The claim was lost amid the work, which was ended: whether it has had its effect is unknown."""

    after = 1

    def __init__(self):
        super().__init__("the claim was lost, and what became of this request is unknown")


def seconds(duration):
    """A duration in JSON, "1.5s" for example."""
    return float(duration.removesuffix("s"))


class Ledger:
    def __init__(self, address, token=None, tls=None, wait=5):
        """`wait`: how many seconds a claim waits for another verdict; less where CLAIM_WITHIN has no room for them."""
        self.address, self.tls, self.wait = address, tls, wait
        self.host, _, self.port = address.rpartition(":")
        self.working = set()
        self.token = f"authorization: Bearer {token}\r\n" if token else ""

    async def process(self, key, body, work):
        """Claims a message. Where the claim is granted, `work(held)` runs, and `{"done": its value}` is returned; else what
        the ledger has found. A caller that is cancelled does not interrupt the work.
        """
        fingerprint, begun = base64.b64encode(hashlib.sha256(body).digest()).decode(), time.monotonic()
        claim = {"key": key, "claimId": str(uuid.uuid4()), "fingerprint": fingerprint, "wait": f"{self.wait}s"}
        try:
            found = await self.call("Claim", CLAIM_WITHIN, ANSWER_WITHIN + self.wait, **claim)
        except Refused as error:
            raise Away from error
        if "acquired" not in found:
            return found
        answered = time.monotonic()
        held = Held(self, key, found["acquired"], begun)
        if held.may_have_happened:
            held.announced = True
            await held.settle(*held.failure("an earlier attempt had announced its effect"))
            return {"advice": "ADVICE_DEAD_LETTER"}
        if answered > begun + (held.until - begun) / 3:
            # It has waited, and the age of the grant is not known here: the lease counts from a renewal.
            held.until = answered + (held.until - begun)
            try:
                await held.renew()
            except Refused as error:
                raise Away from error
        working = asyncio.ensure_future(held.run(work))
        self.working.add(working)
        working.add_done_callback(self.working.discard)
        return {"done": await asyncio.shield(working)}

    async def call(self, method, within, answer_within=ANSWER_WITHIN, **message):
        """The answer. Until a final answer arrives the identical request is repeated, for `within` seconds."""
        until, wait, after = time.monotonic() + within, 0.05, 1
        while True:
            try:
                left = min(until - time.monotonic(), answer_within)
                async with asyncio.timeout(left):
                    status, headers, answer = await self.once(method, json.dumps(message).encode(), left)
                if status == 200:
                    return json.loads(answer)
                if status < 429:
                    raise Refused(f"{method}: {headers['idempotency-ledger-reason']}: {answer.decode()}")
                after = int(headers["retry-after"] or 1)
            except (OSError, EOFError, ValueError):
                pass
            if time.monotonic() + wait >= until:
                raise Away(after)
            await asyncio.sleep(wait)
            wait = min(wait * 2, 2)

    async def once(self, method, body, left):
        """`left`: the seconds within which the server must answer. It ends a wait before that."""
        reader, writer = await asyncio.open_connection(self.host.strip("[]"), self.port, ssl=self.tls)
        try:
            writer.write(f"POST {SERVICE}{method} HTTP/1.1\r\nhost: {self.address}\r\ncontent-type: application/json\r\n"
                         f"connect-timeout-ms: {max(1, int(left * 1000))}\r\n{self.token}content-length: {len(body)}\r\n"
                         "connection: close\r\n\r\n".encode() + body)
            status = int((await reader.readline()).split()[1])
            headers = http.client.parse_headers(io.BytesIO(await reader.readuntil(b"\r\n\r\n")))
            length = int(headers["content-length"])
            if length > ANSWER_BYTES_MAX:
                raise ValueError(f"an answer of {length} bytes")
            return status, headers, await reader.readexactly(length)
        except IndexError:
            raise EOFError from None
        finally:
            writer.close()


class Held:
    """A granted claim; an application finds it as `scope["idempotency"]`."""

    def __init__(self, ledger, key, granted, sent):
        self.ledger, self.name = ledger, {"key": key, "token": granted["token"]}
        self.idempotency_key, self.token, self.attempt = (granted[it] for it in ("idempotencyKey", "token", "attempt"))
        self.may_have_happened = granted.get("priorEffectStarted", False)
        self.until, self.announced = sent + seconds(granted["lease"]), False

    async def announce(self):
        """To be awaited before the effect: where it raises, there must be no effect."""
        self.announced = True  # The ledger may know it, though its answer is lost.
        await self.renew(effectStarted=True)

    async def run(self, work):
        """Renews the claim while `work(self)` goes on, which returns a value and how to settle; settles, returns the value.

        The loss of the claim ends the work. It does not interrupt a settlement: Complete counts also after the lease.
        """
        working = asyncio.ensure_future(work(self))
        keeping = asyncio.ensure_future(self.keep(working))
        try:
            value, settlement = await working
        except asyncio.CancelledError:
            raise Lost from None
        except Exception as error:
            await self.settle(*self.failure(type(error).__name__))
            raise
        finally:
            keeping.cancel()
        await self.settle(*settlement)
        return value

    async def renew(self, **more):
        sent = time.monotonic()
        answer = await self.ledger.call("Renew", self.until - sent, **self.name, **more)
        self.until = max(self.until, sent + seconds(answer["lease"]))

    async def keep(self, work):
        """Renews at a third of the lease while `work` goes on; the loss of the claim ends the work."""
        try:
            while True:
                await asyncio.sleep(max(0.05, (self.until - time.monotonic()) / 3))
                await self.renew()
        except (Away, Refused):
            work.cancel()

    def failure(self, error):
        """How to settle: the next attempt may do it; once the effect was announced, only a person may say so."""
        return "Fail", {"kind": "FAILURE_KIND_PARK" if self.announced else "FAILURE_KIND_RETRYABLE", "error": error}

    async def settle(self, method, more):
        """Reports what became of the work, and warns where the ledger has not confirmed it: the lease then runs out."""
        try:
            await self.ledger.call(method, SETTLE_WITHIN, **self.name, **more)
        except (Away, Refused) as error:
            log.warning("%s is not confirmed: %s", method, error)
