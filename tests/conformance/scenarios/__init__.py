"""The scenarios, by what they are about. Importing this puts all of them into the table."""

from . import calls, crashes, effects, examples, guards, identity, inbox, payloads, requests, stopping, verdicts

__all__ = ["calls", "crashes", "effects", "examples", "guards", "identity", "inbox", "payloads", "requests", "stopping", "verdicts"]
