"""Middleware for the header `Idempotency-Key`: a repeated request gets the first answer, and has one effect."""

from ._rules import Answer, Rule, Settings, default_rule
from .asgi import ASGIMiddleware
from .wsgi import WSGIMiddleware

__all__ = ["ASGIMiddleware", "Answer", "Rule", "Settings", "WSGIMiddleware", "default_rule"]
