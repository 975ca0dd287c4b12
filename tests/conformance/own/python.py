"""The forms that only the Python package has: blocks, decorators, both idioms. It exits with 0 where all are right."""

from __future__ import annotations

import asyncio
import sys
import uuid
from typing import Any

import idempotency_ledger as il
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from idempotency_ledger.powertools import LedgerPersistenceLayer

RUN = uuid.uuid4().hex


def key(name: str) -> il.Key:
    return il.Key.from_cloud_event({"source": "forms", "id": f"{name}-{RUN}"})


def check(truth: bool, otherwise: object) -> None:
    if not truth:
        raise AssertionError(otherwise)


def blocks(ledger: il.Ledger) -> None:
    with ledger.claim(key("block")) as claim:
        check(claim.granted and claim.attempt == 1 and claim.on_expiry == "RECLAIM", claim)
        claim.result = b"r"
    check(claim.outcome.advice is il.Advice.ACK, claim.outcome)
    with ledger.claim(key("block")) as again:
        check(not again.granted, again)
        try:
            print(again.token)
        except il.NotGranted:
            pass
        else:
            raise AssertionError("a claim that was not granted has a token")
    check(again.outcome.replayed and again.outcome.result == b"r", again.outcome)
    with ledger.claim(key("steered")) as steered:
        raise il.Retry(after=5)
    check(steered.outcome.advice is il.Advice.RETRY_LATER and steered.outcome.delay > 4, steered.outcome)
    try:
        with ledger.claim(key("broken")) as broken:
            raise KeyError("x")
    except KeyError:
        check(broken.outcome.advice is il.Advice.DEAD_LETTER, broken.outcome)
    else:
        raise AssertionError("an error has ended with its block")


def decorators(ledger: il.Ledger) -> None:
    calls: list[str] = []

    @ledger.idempotent(key=lambda order, amount=1: key(order), body=lambda order, amount=1: str(amount).encode())
    def charge(order: str, amount: int = 1) -> dict[str, Any]:
        calls.append(order)
        if order == "faulty":
            raise LookupError(order)
        return {"order": order, "amount": amount}

    first, again = charge("deco", amount=3), charge("deco", amount=3)
    check(first == again == {"order": "deco", "amount": 3} and calls == ["deco"], (first, again, calls))
    for error, arguments in ((il.NoResult, ("deco", 4)), (LookupError, ("faulty",)), (il.NoResult, ("faulty",))):
        try:
            charge(*arguments)
        except error:
            continue
        raise AssertionError(f"{arguments} has not raised {error.__name__}")
    check(calls == ["deco", "faulty"], calls)

    @ledger.idempotent(key=key)
    def unstorable(_order: str) -> object:
        return object()

    for _ in range(2):  # The effect is done, and its value cannot be stored: a repeat has no second one.
        try:
            unstorable("unstorable")
        except il.NoResult as error:
            check(error.outcome.advice is il.Advice.ACK and error.outcome.result_dropped, error)
            continue
        raise AssertionError("a value that cannot be stored was returned")


async def tasks() -> None:
    ledger = il.AsyncLedger("effects")
    async with ledger.claim(key("async-block")) as claim:
        claim.result = "r"
    check(claim.outcome.advice is il.Advice.ACK, claim.outcome)
    async with ledger.claim(key("async-steered")) as steered:
        raise il.Terminal("no")
    check(steered.outcome.advice is il.Advice.DEAD_LETTER, steered.outcome)

    @ledger.idempotent(key=key)
    async def charge(order: str) -> str:
        return f"{order} {uuid.uuid4()}"

    check(await charge("async-deco") == await charge("async-deco"), "a repeat has another value")
    await lost_block(ledger)
    check(await ledger.close(grace=5), "the close has not ended")


async def lost_block(ledger: il.AsyncLedger) -> None:
    """A block whose claim is lost ends without an error; one that its caller cancels does not."""
    async with ledger.claim(key("lost")) as claim:
        await asyncio.sleep(30)
        raise AssertionError("the block was not cancelled")
    check(claim.outcome.reason == "LEASE_LOST" and claim.outcome.effect_unknown, claim.outcome)
    await asyncio.sleep(0)  # The task goes on as if it was never cancelled.

    async def cancelled() -> None:
        async with ledger.claim(key("cancelled")):
            await asyncio.sleep(30)

    task = asyncio.ensure_future(cancelled())
    await asyncio.sleep(0.5)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("a cancelled block has ended without an error")


def traced(ledger: il.Ledger) -> None:
    """Where OpenTelemetry's API is there, `traceparent` is sent with each call."""
    try:
        from opentelemetry import context, trace
    except ImportError:
        print("no OpenTelemetry", file=sys.stderr)
        return
    span = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, True, trace.TraceFlags(1)))
    token = context.attach(trace.set_span_in_context(span))
    ledger.process(key("traced"), lambda claim: b"r")
    context.detach(token)
    print("traced", flush=True)


def powertools(ledger: il.Ledger) -> None:
    """The persistence layer: a repeat is answered, another payload refused, an exception settled by what it says."""
    layer, calls = LedgerPersistenceLayer(ledger, source=f"lambda-{RUN}"), []
    config = IdempotencyConfig(event_key_jmespath="id", payload_validation_jmespath="amount")
    config.register_lambda_context(LambdaContext())

    @idempotent_function(data_keyword_argument="order", persistence_store=layer, config=config)
    def charge(order: dict[str, Any]) -> dict[str, Any]:
        calls.append((order["id"], layer.claim.attempt, layer.claim.token))
        if order["id"] == "inner":
            raise ValueError("after the effect, perhaps")
        if order["id"] == "later" and layer.claim.attempt == 1:
            raise il.Retry(after=0)
        if order["id"] == "twice":
            return charge(order=order)
        return {"charged": order["amount"]}

    def refused(error: type[Exception], **order: Any) -> None:
        try:
            charge(order=order)
        except error:
            return
        raise AssertionError(f"{order} has not raised {error.__name__}")

    for _ in range(2):
        check(charge(order={"id": "one", "amount": 3}) == {"charged": 3}, "the result")
    check([call[0] for call in calls] == ["one"], calls)
    refused(IdempotencyValidationError, id="one", amount=4)
    refused(IdempotencyAlreadyInProgressError, id="twice", amount=1)
    refused(ValueError, id="inner", amount=1)
    refused(IdempotencyPersistenceLayerError, id="inner", amount=1)  # It is parked.
    refused(il.Retry, id="later", amount=1)
    check(charge(order={"id": "later", "amount": 1}) == {"charged": 1}, "the second attempt")
    check([call[:2] for call in calls if call[0] == "later"] == [("later", 1), ("later", 2)], calls)
    try:
        print(layer.claim)
    except il.NotGranted:
        return
    raise AssertionError("a function that has ended has a claim")


class LambdaContext:
    """The part of an invocation's context that Powertools reads."""

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 30_000


def main() -> None:
    with il.Ledger("effects") as ledger:
        blocks(ledger)
        decorators(ledger)
        powertools(ledger)
        traced(ledger)
    asyncio.run(tasks())


if __name__ == "__main__":
    main()
