"""The subject of clients/python with threads: PROTOCOL.md says what it reads and writes."""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import idempotency_ledger as il
import python_wsgi

_writing = threading.Lock()
ledgers: dict[str, il.Ledger] = {}
going: dict[str, threading.Semaphore] = {}
running: set[threading.Thread] = set()
RAISES = {"Terminal": il.Terminal, "Park": il.Park, "Doubtful": il.Doubtful}


def say(event: str, **fields: Any) -> None:
    with _writing:
        os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


def raised(step: dict[str, Any]) -> Exception:
    """The error that a step raises."""
    if step["error"] == "Retry":
        return il.Retry(step.get("text"), after=step.get("after"))
    if step["error"] == "GiveBack":
        return il.GiveBack(unpin_fingerprint=step.get("unpin", False))
    return RAISES[step["error"]](step.get("text")) if step["error"] in RAISES else ValueError(step.get("text"))


def content(step: dict[str, Any], name: str) -> bytes:
    return b"x" * step["bytes"] if "bytes" in step else step.get(name, "").encode()


def started(claim: Any, call: str) -> None:
    say("started", call=call, token=str(claim.token), attempt=claim.attempt, idempotency_key=claim.idempotency_key,
        effect_unknown=claim.effect_unknown, checkpoint=claim.checkpoint.decode())


def finished(call: str, outcome: il.Outcome) -> None:
    result = None if outcome.result is None else outcome.result.decode()
    say("outcome", call=call, advice=outcome.advice.value, delay=outcome.delay, result=result, reason=outcome.reason,
        replayed=outcome.replayed, result_dropped=outcome.result_dropped, effect_unknown=outcome.effect_unknown)


def failed(call: str, error: Exception) -> None:
    say("error", call=call, error=type(error).__name__, field=getattr(error, "field", ""), text=str(error))


def handler(command: dict[str, Any]) -> Any:
    call = command["call"]
    go = going.setdefault(call, threading.Semaphore(0))

    def handle(claim: il.Claim) -> il._claim.Result:
        started(claim, call)
        for step in command["steps"]:
            if step["do"] == "effect":
                say("effect", call=call, id=command["id"], token=str(claim.token), idempotency_key=claim.idempotency_key)
                go.acquire()
            elif step["do"] == "pause":
                say("paused", call=call)
                while not go.acquire(timeout=0.02):
                    if claim.cancelled.is_set():
                        say("lost", call=call, reason=claim.lost)
                        claim.check()
            elif step["do"] == "announce":
                claim.announce()
            elif step["do"] == "save":
                try:
                    claim.save(content(step, "checkpoint"))
                except il.CheckpointDropped:
                    say("dropped", call=call)
            elif step["do"] == "complete":
                claim.complete(content(step, "result"))
            elif step["do"] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            elif step["do"] == "raise":
                raise raised(step)
            elif step["do"] == "return":
                return content(step, "result")
        return None
    return handle


def process(command: dict[str, Any]) -> None:
    body = command.get("body")
    try:
        key = il.Key.of(command["source"], command["id"])
        finished(command["call"], ledgers[command["ledger"]].process(
            key, handler(command), body=None if body is None else body.encode(), wait=command.get("wait", 0)))
    except Exception as error:
        failed(command["call"], error)


def message(command: dict[str, Any]) -> il.Message:
    headers = [(name, value.encode()) for name, value in command.get("headers", {}).items()]
    return il.Message(content(command, "payload"), headers)


def handed(message: il.StoredMessage) -> None:
    headers = {name: value.decode() for name, value in message.headers}
    say("handed", call=message.key.id, payload=bytes(message.payload).decode(), headers=headers)


def of_message(command: dict[str, Any], id: str) -> dict[str, Any]:
    """The delivery of a message that a worker was handed out."""
    return {"call": id, "id": id, "steps": command["steps_of"].get(id, command["steps"])}


def store(command: dict[str, Any]) -> None:
    try:
        key = il.Key.of(command["source"], command["id"])
        finished(command["call"], ledgers[command["ledger"]].store(key, message(command)))
    except Exception as error:
        failed(command["call"], error)


def work(command: dict[str, Any]) -> None:
    def handle(claim: il.Claim, message: il.StoredMessage) -> il._claim.Result:
        handed(message)
        return handler(of_message(command, message.key.id))(claim)

    say("worked", ended=ledgers[command["ledger"]].work(handle, concurrency=command["concurrency"]))


def own_lock() -> None:
    """In a child: a thread of the parent may have held the lock when it forked."""
    global _writing
    _writing = threading.Lock()


def prefork(command: dict[str, Any]) -> None:
    for id in command["ids"]:
        if os.fork() == 0:
            own_lock()
            process({"ledger": command["ledger"], "call": f"fork-{id}", "source": "shop", "id": id,
                     "steps": [{"do": "return", "result": "forked"}]})
            os._exit(0)


def close(command: dict[str, Any]) -> None:
    ledger = ledgers[command["ledger"]]
    threading.Thread(target=lambda: say("closed", ended=ledger.close(command["grace"]))).start()
    while not ledger._state.inflight.closing:
        time.sleep(0.001)
    say("closing")


def shutdown(stop: il.Shutdown) -> None:
    while not stop.wait(0.05):
        pass
    say("stopping")
    for ledger in ledgers.values():
        ledger.close()
    for thread in list(running):
        thread.join()
    os._exit(0)


def connection(command: dict[str, Any]) -> il.Connection:
    return il.Connection(command["endpoint"], client_cert_file=command.get("client_cert_file"),
                         client_key_file=command.get("client_key_file"))


def options(command: dict[str, Any]) -> dict[str, Any]:
    return {name: command[name] for name in ("lease", "repeat_announced") if name in command}


def commands() -> Iterator[dict[str, Any]]:
    """The commands, while the main thread runs Python at least every 50 ms.

    Python calls the handler of a signal in the main thread, between two instructions. A signal that arrives just before
    a blocking call is not noticed before that call returns.
    """
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        for line in iter(sys.stdin.readline, ""):
            lines.put(line)
        lines.put("")

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=0.05)
        except queue.Empty:
            continue
        if not line:
            return
        yield json.loads(line)


def main() -> None:
    say("ready", forks=True, forks_after_use=True, cancels=False, inbox=True)
    for command in commands():
        do = command["do"]
        if do == "open":
            try:
                ledgers[command["ledger"]] = il.Ledger(command["consumer"], connection(command), **options(command))
                say("opened")
            except il.InvalidField as error:
                failed("open", error)
        elif do == "process":
            thread = threading.Thread(target=process, args=(command,))
            running.add(thread)
            thread.start()
        elif do in ("store", "work"):
            threading.Thread(target={"store": store, "work": work}[do], args=(command,)).start()
        elif do == "go":
            going.setdefault(command["call"], threading.Semaphore(0)).release()
        elif do == "serve":
            python_wsgi.serve(command, say, going)
        elif do == "prefork":
            prefork(command)
        elif do == "close":
            close(command)
        elif do == "shutdown":
            stop = il.Shutdown(command["grace"])
            threading.Thread(target=shutdown, args=(stop,), daemon=True).start()


if __name__ == "__main__":
    main()
