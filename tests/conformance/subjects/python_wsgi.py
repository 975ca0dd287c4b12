"""The HTTP application of the subject with threads: it takes the steps that a request's header names."""

from __future__ import annotations

import json
import socketserver
import threading
import wsgiref.simple_server
from typing import Any

import idempotency_ledger as il
from idempotency_ledger import http as middleware


class _Server(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class _Quiet(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def settings(command: dict[str, Any], tenant: Any, reread: Any) -> middleware.Settings:
    """The middleware's settings, as a command names them."""
    named = {name: command[name] for name in ("wait", "required", "result_max", "body_max") if name in command}
    return middleware.Settings(tenant=tenant, reread=reread if command.get("reread") else None, **named)


def content(step: dict[str, Any]) -> bytes:
    return b"x" * step["bytes"] if "bytes" in step else str(step.get("body", "")).encode()


HEADERS = [("Content-Type", "text/plain"), ("Location", "/orders/1"), ("X-Private", "not stored")]


def serve(command: dict[str, Any], say: Any, going: dict[str, threading.Semaphore]) -> None:
    """Serves the application, and says where."""
    def app(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        claim, call = environ.get("idempotency_ledger.claim"), environ.get("HTTP_X_CALL", "")
        go = going.setdefault(call, threading.Semaphore(0))
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        for step in json.loads(environ.get("HTTP_X_STEPS", "[]")):
            if step["do"] == "effect":
                say("effect", call=call, id=call, token=str(claim.token if claim else 0),
                    idempotency_key=claim.idempotency_key if claim else call)
                go.acquire()
            elif step["do"] == "pause":
                say("paused", call=call)
                go.acquire()
            elif step["do"] == "announce":
                claim.announce()
            elif step["do"] == "raise":
                raise ValueError("no answer")
            elif step["do"] == "answer":
                start_response(f"{step['status']} Status", HEADERS)
                return [content(step)]
        start_response("204 No Content", [])
        return []

    def reread(_environ: dict[str, Any]) -> middleware.Answer:
        return middleware.Answer(200, [("content-type", "text/plain")], b"read again")

    ledger = il.Ledger(command["consumer"], il.Connection(command["endpoint"]))
    chosen = settings(command, lambda environ: environ.get("HTTP_X_TENANT", ""), reread)
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, middleware.WSGIMiddleware(app, ledger, chosen),
                                               server_class=_Server, handler_class=_Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say("serving", address=f"127.0.0.1:{server.server_port}")
