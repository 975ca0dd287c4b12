"""The subject of clients/python with asyncio: PROTOCOL.md says what it reads and writes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from typing import Any

import idempotency_ledger as il
import python_asgi
from python import (connection, content, failed, finished, handed, message, of_message, options, own_lock, raised, say,
                    started)

ledgers: dict[str, il.AsyncLedger] = {}
going: dict[str, asyncio.Semaphore] = {}
tasks: dict[str, asyncio.Task[None]] = {}


def handler(command: dict[str, Any]) -> Any:
    call = command["call"]
    go = going.setdefault(call, asyncio.Semaphore(0))

    async def handle(claim: il.AsyncClaim) -> il._claim.Result:
        started(claim, call)
        for step in command["steps"]:
            if step["do"] == "effect":
                say("effect", call=call, id=command["id"], token=str(claim.token), idempotency_key=claim.idempotency_key)
                await effect(go)
            elif step["do"] == "pause":
                say("paused", call=call)
                try:
                    await go.acquire()
                except asyncio.CancelledError:
                    say("lost", call=call, reason=claim.lost)
                    raise
            elif step["do"] == "announce":
                await claim.announce()
            elif step["do"] == "save":
                try:
                    await claim.save(content(step, "checkpoint"))
                except il.CheckpointDropped:
                    say("dropped", call=call)
            elif step["do"] == "complete":
                await claim.complete(content(step, "result"))
            elif step["do"] == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            elif step["do"] == "raise":
                raise raised(step)
            elif step["do"] == "return":
                return content(step, "result")
        return None
    return handle


async def effect(go: asyncio.Semaphore) -> None:
    """Waits for the effect, which cannot be interrupted: a zombie's write is on its way."""
    waiting = asyncio.ensure_future(go.acquire())
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            continue


async def process(command: dict[str, Any]) -> None:
    call, body = command["call"], command.get("body")
    try:
        key = il.Key.of(command["source"], command["id"])
        finished(call, await ledgers[command["ledger"]].process(
            key, handler(command), body=None if body is None else body.encode(), wait=command.get("wait", 0)))
    except asyncio.CancelledError:
        say("cancelled", call=call)
    except Exception as error:
        failed(call, error)


async def store(command: dict[str, Any]) -> None:
    try:
        key = il.Key.of(command["source"], command["id"])
        finished(command["call"], await ledgers[command["ledger"]].store(key, message(command)))
    except Exception as error:
        failed(command["call"], error)


async def work(command: dict[str, Any]) -> None:
    async def handle(claim: il.AsyncClaim, message: il.StoredMessage) -> il._claim.Result:
        handed(message)
        return await handler(of_message(command, message.key.id))(claim)

    say("worked", ended=await ledgers[command["ledger"]].work(handle, concurrency=command["concurrency"]))


async def prefork(command: dict[str, Any]) -> None:
    for id in command["ids"]:
        if os.fork() == 0:
            own_lock()
            asyncio.set_event_loop(None)
            asyncio._set_running_loop(None)  # As a worker that a parent with a loop has forked.
            asyncio.run(process({"ledger": command["ledger"], "call": f"fork-{id}", "source": "shop", "id": id,
                                 "steps": [{"do": "return", "result": "forked"}]}))
            os._exit(0)


async def close(command: dict[str, Any]) -> None:
    say("closed", ended=await ledgers[command["ledger"]].close(command["grace"]))


async def shutdown(stop: il.Shutdown) -> None:
    await stop.until_requested()
    say("stopping")
    for ledger in ledgers.values():
        await ledger.close()
    await asyncio.gather(*(task for task in tasks.values() if task is not asyncio.current_task()))
    os._exit(0)


async def obey(command: dict[str, Any]) -> None:
    do = command["do"]
    if do == "open":
        try:
            ledgers[command["ledger"]] = il.AsyncLedger(command["consumer"], connection(command), **options(command))
            say("opened")
        except il.InvalidField as error:
            failed("open", error)
    elif do == "process":
        tasks[command["call"]] = asyncio.ensure_future(process(command))
    elif do == "store":
        tasks[command["call"]] = asyncio.ensure_future(store(command))
    elif do == "work":
        tasks["work"] = asyncio.ensure_future(work(command))
    elif do == "go":
        going.setdefault(command["call"], asyncio.Semaphore(0)).release()
    elif do == "cancel":
        tasks[command["call"]].cancel()
    elif do == "serve":
        await python_asgi.serve(command, say, going)
    elif do == "prefork":
        await prefork(command)
    elif do == "close":
        tasks["close"] = asyncio.ensure_future(close(command))
        await asyncio.sleep(0)
        say("closing")
    elif do == "shutdown":
        tasks["shutdown"] = asyncio.ensure_future(shutdown(il.Shutdown(command["grace"])))
        await asyncio.sleep(0)


async def main() -> None:
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[str] = asyncio.Queue()

    def read() -> None:
        for line in iter(sys.stdin.readline, ""):
            loop.call_soon_threadsafe(lines.put_nowait, line)

    threading.Thread(target=read, daemon=True).start()
    say("ready", forks=True, forks_after_use=False, cancels=True, inbox=True)
    while True:
        await obey(json.loads(await lines.get()))


if __name__ == "__main__":
    asyncio.run(main())
