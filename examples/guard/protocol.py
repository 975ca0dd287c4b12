"""What a consumer does with one delivery of a message. Copy it: it depends on the stubs, not on a broker.

Each rule that it keeps is explained in docs/clients.md.
"""

import asyncio
import logging
import uuid

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from stubs import pb

DOMAIN = "idempotency.ledger.v1"
DEADLINE = 5.0  # seconds, of each call
TRIES = 5
REPEAT_WITHIN = 1.0  # seconds: a longer wait is left to the next delivery
DEFAULT_WAIT = 1.0  # seconds before the next delivery where the ledger names no time
MENDING_WAIT = 5.0  # seconds until a claim is tried again whose policy does not protect its effect
ERROR_LENGTH = 2000  # characters: the ledger keeps no longer error
PARKING = (pb.ON_EXPIRY_PARK, pb.ON_EXPIRY_PARK_IF_STARTED)


class NotDone(Exception):
    """A handler raises it when its effect certainly did not happen, so that another attempt is safe."""


class LeftOpen(Exception):
    """A handler raises it when the next attempt finds out by itself whether the effect happened, as with a guard in
    the effect's own database: nothing is settled, and the lease ends by itself."""


async def handle(ledger, claim_request, process, announce=False, repeat_announced=False):
    """Claims, processes and settles. Returns the advice and how many seconds to wait where it says to wait.

    `process` is called with the granted claim; what it returns is the result. `announce`: the effect can be
    neither fenced nor deduplicated, so it is announced before it starts. `repeat_announced`: process also
    where an earlier attempt had announced its effect.

    Never cancel it: an effect may be done whose Complete is not sent yet.
    """
    claim_request.claim_id = str(uuid.uuid4())  # new for each delivery, and the same when this call is repeated
    try:
        answer = await repeat(ledger.Claim, claim_request)
        if answer.advice != pb.ADVICE_PROCESS or answer.WhichOneof("verdict") != "acquired":
            return answer.advice, wait_of(answer)
        claim = answer.acquired
        held = {"key": claim_request.key, "token": claim.token}
        if claim.prior_effect_started and not repeat_announced:
            error = "an earlier attempt had announced its effect"
            answer = await repeat(ledger.Fail, pb.FailRequest(kind=pb.FAILURE_KIND_PARK, error=error, **held))
            return answer.advice, wait_of(answer)
        if announce and claim.on_expiry not in PARKING:
            # Nothing has begun. With this policy the next holder would be granted the claim all the same.
            request = pb.ReleaseRequest(delay=Duration(seconds=int(MENDING_WAIT)), **held)
            return (await repeat(ledger.Release, request)).advice, MENDING_WAIT
        if announce:
            await repeat(ledger.Renew, pb.RenewRequest(effect_started=True, **held))
        answer = await settle(ledger, held, claim, process)
        return answer.advice, wait_of(answer)
    except LeftOpen:
        return pb.ADVICE_RETRY_LATER, DEFAULT_WAIT
    except grpc.RpcError as error:
        return advice_of(error)


async def settle(ledger, held, claim, process):
    """Processes under the claim, which is renewed meanwhile, and reports the outcome to the ledger."""
    renewing = asyncio.create_task(renew(ledger, held, seconds(claim.lease) / 3))
    try:
        result = await process(claim)
    except NotDone as error:
        failed = pb.FailRequest(kind=pb.FAILURE_KIND_RETRYABLE, error=str(error)[:ERROR_LENGTH], **held)
    except LeftOpen:
        raise
    except Exception as error:  # the effect may have happened: a person finds out
        failed = pb.FailRequest(kind=pb.FAILURE_KIND_PARK, error=type(error).__name__, **held)
    else:
        return await complete(ledger, held, result)
    finally:
        renewing.cancel()
    return await repeat(ledger.Fail, failed)


async def complete(ledger, held, result):
    """Completes, without the result where the request with it is larger than the server takes: the effect is done."""
    try:
        answer = await repeat(ledger.Complete, pb.CompleteRequest(result=result, **held))
    except grpc.RpcError as error:
        info, _ = details_of(error)
        if not info or info.reason != "TOO_LARGE":
            raise
        answer = await repeat(ledger.Complete, pb.CompleteRequest(result_left_out=True, **held))
    if answer.result_dropped:
        logging.warning("%s is completed; its result was too large, and is not stored", held["key"].id)
    return answer


async def renew(ledger, held, every):
    """Renews the claim until it is cancelled, or the ledger refuses: the settlement then gets the same refusal."""
    while True:
        await asyncio.sleep(every)
        try:
            await repeat(ledger.Renew, pb.RenewRequest(**held))
        except grpc.RpcError as error:
            info, wait = details_of(error)
            if info and wait is None:
                return


async def repeat(call, request):
    """Sends the identical request again where it is unknown whether it was applied, or the ledger asks for it."""
    for left in reversed(range(TRIES)):
        try:
            return await call(request, timeout=DEADLINE)
        except grpc.RpcError as error:
            info, wait = details_of(error)
            unknown = info is None
            if left == 0 or not unknown and (wait is None or wait > REPEAT_WITHIN):
                raise
            await asyncio.sleep(0.1 if wait is None else wait)


def advice_of(error):
    """The advice that each error of the ledger carries, and the wait; RETRY_LATER where there is none."""
    info, wait = details_of(error)
    word = f"ADVICE_{info.metadata['advice']}" if info else ""
    known = pb.Advice.DESCRIPTOR.values_by_name.get(word)
    return known.number if known else pb.ADVICE_RETRY_LATER, DEFAULT_WAIT if wait is None else wait


def details_of(error):
    """The ledger's own ErrorInfo and the seconds of its RetryInfo. Without ErrorInfo a proxy made the error."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # details that contradict the status are not the ledger's
        status = None
    ours = wait = None
    for detail in status.details if status else []:
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        if detail.Unpack(info) and info.domain == DOMAIN:
            ours = info
        elif detail.Unpack(retry):
            wait = seconds(retry.retry_delay)
    return ours, wait if ours else None


def wait_of(answer):
    named = "retry_after" in answer.DESCRIPTOR.fields_by_name and answer.HasField("retry_after")
    return seconds(answer.retry_after) if named else DEFAULT_WAIT


def seconds(duration):
    return duration.seconds + duration.nanos / 1e9
