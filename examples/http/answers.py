"""HTTP responses: as an application sends them, as the ledger stores them, and as a repeat gets them."""

import base64
import json
import math

KEPT_HEADERS = (b"content-type", b"location")


def problem(status, title, after=0):
    """An answer of the middleware itself."""
    headers = [(b"content-type", b"application/problem+json")]
    if after:
        headers.append((b"retry-after", b"%d" % math.ceil(after)))
    return status, headers, json.dumps({"title": title, "status": status}).encode()


def stored(answer, most):
    """What the ledger stores of an answer, in JSON's base64. A body that is too long is left out: status and headers stay."""
    status, headers, body = answer
    kept = [(name.decode(), value.decode("latin-1")) for name, value in headers if name.lower() in KEPT_HEADERS]
    result = json.dumps([status, kept]).encode() + b"\n" + body
    if len(result) > most:
        result = json.dumps([status, kept, "omitted"]).encode()
    return base64.b64encode(result).decode()


def replayed(result):
    """The answer to a repeat. Where the ledger has no result, it was dropped or has expired: the effect happened all the same."""
    head, _, body = (base64.b64decode(result) or b'[200, [], "omitted"]').partition(b"\n")
    status, kept, *omitted = json.loads(head)
    headers = [(name.encode(), value.encode("latin-1")) for name, value in kept]
    headers.append((b"idempotency-replayed", b"true"))
    if omitted:
        headers.append((b"idempotency-body", b"omitted"))
    return status, headers, body


async def request_body(receive, most):
    """The whole body; `None` if it is longer than `most`."""
    body, more = b"", True
    while more and len(body) <= most:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise ConnectionResetError("the client has gone before its request was whole")
        body, more = body + event.get("body", b""), event.get("more_body", False)
    return body if len(body) <= most else None


async def called(app, scope, receive, body):
    """The whole answer of an application to a request whose body was read."""
    events, bodies = [], [{"type": "http.request", "body": body}]

    async def receive_again():
        return bodies.pop() if bodies else await receive()

    async def collect(event):
        events.append(event)

    await app(scope, receive_again, collect)
    content = b"".join(event.get("body", b"") for event in events[1:])
    return events[0]["status"], list(events[0].get("headers", ())), content


async def send_answer(send, answer):
    status, headers, body = answer
    headers = [header for header in headers if header[0].lower() != b"content-length"]
    headers.append((b"content-length", b"%d" % len(body)))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
