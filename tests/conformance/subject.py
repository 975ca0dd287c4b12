"""A subject: a small program in the language under test, driven by JSON lines. PROTOCOL.md says what the lines are."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from typing import Any

from sink import Sink

Event = dict[str, Any]
PATIENCE = 30.0


class Subject:
    """A running subject. Its effects go to the sink, which answers immediately unless a hook keeps the answer."""

    def __init__(self, command: list[str], environment: dict[str, str], sink: Sink, log: Any) -> None:
        self.sink = sink
        self.keep_effects = False
        self._numbers = itertools.count(1)
        self._ids: dict[str, str] = {}
        self._events: list[Event] = []
        self._changed = threading.Condition()
        # In a separate process group: what it has forked ends with it.
        self.process = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()
        self.ready = self.wait_for("ready")

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            event = json.loads(line)
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()
            if event["event"] == "effect" and not self.keep_effects:
                self.take_effect(event)
        with self._changed:
            self._events.append({"event": "ended"})
            self._changed.notify_all()

    def take_effect(self, event: Event) -> None:
        """The effect happens, and the subject goes on."""
        self.sink.effect(event["id"], int(event["token"]), event["idempotency_key"])
        self.send("go", call=event["call"])

    def deliver(self, id: str) -> str:
        """A delivery to the first example of a README; returns its name."""
        call = str(next(self._numbers))
        self.send("process", call=call, id=id)
        return call

    def send(self, do: str, **fields: Any) -> None:
        """A command to the subject; one that is gone does not read it."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def wait_for(self, event: str, call: str | None = None, seconds: float = PATIENCE) -> Event:
        """The first such event that no one has waited for yet; an error of the subject ends the wait."""
        def found() -> Event | None:
            for at, known in enumerate(self._events):
                if known["event"] == event and call in (None, known.get("call")):
                    return self._events.pop(at)
            return None

        until = time.monotonic() + seconds
        with self._changed:
            while True:
                hit = found()
                if hit is not None:
                    return hit
                wrong = next((known for known in self._events
                              if known["event"] in ("error", "ended") and call in (None, known.get("call"), "")), None)
                if wrong is not None and event != wrong["event"]:
                    raise AssertionError(f"instead of {event}: {wrong}")
                if not self._changed.wait(until - time.monotonic()) and time.monotonic() >= until:
                    raise AssertionError(f"no {event} of call {call} within {seconds} s; there were {self._events}")

    def seen(self, event: str, call: str | None = None) -> bool:
        """Whether such an event has arrived that no one has waited for."""
        with self._changed:
            return any(known["event"] == event and call in (None, known.get("call")) for known in self._events)

    def open(self, endpoint: str, consumer: str, ledger: str = "l", **options: Any) -> None:
        """Makes a client."""
        self.send("open", ledger=ledger, endpoint=endpoint, consumer=consumer, **options)
        self.wait_for("opened")

    def begin(self, id: str, *steps: Event, ledger: str = "l", **fields: Any) -> str:
        """Begins a delivery whose handler takes these steps; returns its name."""
        call = str(next(self._numbers))
        self.send("process", ledger=ledger, call=call, source="shop", id=id, steps=list(steps), **fields)
        return call

    def outcome(self, call: str, seconds: float = PATIENCE) -> Event:
        """What the package says of a delivery."""
        return self.wait_for("outcome", call, seconds)

    def process_one(self, id: str, *steps: Event, **fields: Any) -> Event:
        """A delivery, and its outcome."""
        return self.outcome(self.begin(id, *steps, **fields))

    def store(self, id: str, payload: str = "", ledger: str = "l", **fields: Any) -> Event:
        """Stores a message in the inbox; returns the outcome."""
        call = str(next(self._numbers))
        self.send("store", ledger=ledger, call=call, source="shop", id=id, payload=payload, **fields)
        return self.outcome(call)

    def work(self, *steps: Event, concurrency: int = 1, steps_of: dict[str, list[Event]] | None = None) -> None:
        """Begins to process the messages of the inbox; `steps_of` has other steps for some ids."""
        self.send("work", ledger="l", concurrency=concurrency, steps=list(steps), steps_of=steps_of or {})

    def close_client(self) -> None:
        """Closes the client, and waits for the end of its worker."""
        self.send("close", ledger="l", grace=10)
        ends = self.wait_for("worked"), self.wait_for("closed")
        if not all(event["ended"] for event in ends):
            raise AssertionError(f"the client was closed while a handler ran: {ends}")

    def signal(self, number: signal.Signals) -> None:
        """A signal to the process itself."""
        self.process.send_signal(number)

    def ends_within(self, seconds: float) -> bool:
        """Whether it ends by itself within this number of seconds."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """kill -9, and waits for its end."""
        self._signal_group(signal.SIGKILL)
        self.process.wait(10)

    def stop_still(self) -> None:
        """SIGSTOP, and waits until it stands still."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def end(self) -> None:
        """Ends it, whatever it does."""
        if self.process.poll() is None:
            self._signal_group(signal.SIGCONT)
            self._signal_group(signal.SIGKILL)
        self.process.wait(10)

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass
