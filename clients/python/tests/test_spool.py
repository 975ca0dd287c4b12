"""The spool: what is on the disk before and after an effect, and what an outcome says of it."""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest
from world import KEY as CLAIMED
from world import Play, ours

from idempotency_ledger import Advice, Doubtful, GiveBack, InvalidField, Key, Outcome, Park, Retry, Terminal
from idempotency_ledger._core.delivery import begin
from idempotency_ledger._core.steps import Failure
from idempotency_ledger._proto import ledger_pb2 as pb
from idempotency_ledger.spool import Spool, SpoolFailed

AWAY = Outcome(Advice.RETRY_LATER, 1.0, reason="NO_ANSWER (UNAVAILABLE)", away=True)
KEY = Key.of("shop", "order-1")


def lines(path: Path) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def events(path: Path) -> List[str]:
    return [line["event"] for line in lines(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "spool.jsonl"


@pytest.mark.parametrize(
    ("failure", "away"),
    [
        (Failure("UNAVAILABLE"), True),
        (Failure("DEADLINE_EXCEEDED"), True),
        (ours("STORE_UNAVAILABLE", code="UNAVAILABLE"), True),
        (ours("DEADLINE_EXCEEDED", code="DEADLINE_EXCEEDED"), True),
        (Failure("INTERNAL"), False),
        (Failure("UNKNOWN"), False),
        (Failure("CANCELLED"), False),
        (ours("CONSUMER_DISABLED", code="FAILED_PRECONDITION"), False),
        (ours("CONSUMER_NOT_ALLOWED", code="PERMISSION_DENIED"), False),
        (ours("OVERLOADED", code="RESOURCE_EXHAUSTED"), False),
        (pb.ClaimResponse(advice=pb.ADVICE_RETRY_LATER, in_progress=pb.InProgress()), False),
        (pb.ClaimResponse(advice=pb.ADVICE_DEAD_LETTER, parked=pb.Parked()), False),
    ],
)
def test_only_a_claim_that_was_not_answered_is_away(failure: Any, away: bool) -> None:
    play = Play(*([failure] * 100), takes=6.0)
    outcome = play.run(begin(play.world, pb.ClaimRequest(key=CLAIMED, claim_id="x"), lambda: False))
    assert outcome.away is away


def test_an_effect_is_written_down_before_and_after(path: Path) -> None:
    def effect() -> bytes:
        assert events(path) == ["begin"]
        return b"paid"

    with Spool(path) as spool:
        outcome = spool.process(AWAY, "payments", KEY, effect, body=b"body")
    assert outcome == Outcome(Advice.ACK, result=b"paid", away=True)
    first, last = lines(path)
    assert (first["event"], last["event"], last["result_base64"]) == ("begin", "end", "cGFpZA==")
    assert (first["v"], first["consumer"], first["source"], first["id"]) == (1, "payments", "shop", "order-1")
    assert first["row"] == last["row"]
    assert first["at"] < last["at"]
    assert first["at"].endswith("Z")
    assert len(first["fingerprint_hex"]) == 64
    assert os.stat(path).st_mode & 0o077 == 0


def test_a_beginning_is_synced_before_the_effect(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool, order = Spool(path), []
    write, sync = os.write, os.fsync

    def written(file: int, data: bytes) -> int:
        order.append(json.loads(data)["event"])
        return write(file, data)

    def synced(file: int) -> None:
        order.append("sync")
        sync(file)

    monkeypatch.setattr(os, "write", written)
    monkeypatch.setattr(os, "fsync", synced)
    spool.process(AWAY, "payments", KEY, lambda: order.append("effect"))
    assert order == ["begin", "sync", "effect", "end", "sync"]


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(Advice.ACK, replayed=True),
        Outcome(Advice.RETRY_LATER, 5.0, reason="in_progress"),
        Outcome(Advice.DEAD_LETTER, reason="parked"),
        Outcome(Advice.RETRY_LATER, 1.0, reason="NO_ANSWER (INTERNAL)"),
    ],
)
def test_an_answer_of_the_ledger_opens_nothing(path: Path, outcome: Outcome) -> None:
    with Spool(path) as spool:
        assert spool.process(outcome, "payments", KEY, lambda: pytest.fail("ran")) is outcome
    assert lines(path) == []


def test_a_replay_run_is_never_opened(path: Path) -> None:
    with Spool(path) as spool:
        outcome = spool.process(AWAY, "payments", Key.of("shop", "1", "run"), lambda: pytest.fail("ran"))
    assert outcome is AWAY


@pytest.mark.parametrize(
    ("error", "written", "advice", "unknown"),
    [
        (Retry("later", after=7), ["begin", "none"], Advice.RETRY_LATER, False),
        (Terminal("never"), ["begin", "none"], Advice.RETRY_LATER, False),
        (GiveBack(), ["begin", "none"], Advice.RETRY_LATER, False),
        (Doubtful(), ["begin"], Advice.RETRY_LATER, True),
        (Park("look"), ["begin"], Advice.DEAD_LETTER, True),
        (ValueError("secret"), ["begin"], Advice.DEAD_LETTER, True),
    ],
)
def test_an_error_says_whether_the_effect_happened(
    path: Path, error: Exception, written: List[str], advice: Advice, unknown: bool
) -> None:
    def effect() -> bytes:
        raise error

    with Spool(path) as spool:
        outcome = spool.process(AWAY, "payments", KEY, effect)
    assert events(path) == written
    assert (outcome.advice, outcome.effect_unknown, outcome.error) == (advice, unknown, error)
    assert outcome.reason is not None
    assert "secret" not in outcome.reason


def test_an_interrupt_leaves_the_beginning_alone(path: Path) -> None:
    def effect() -> bytes:
        raise KeyboardInterrupt

    with Spool(path) as spool, pytest.raises(KeyboardInterrupt):
        spool.process(AWAY, "payments", KEY, effect)
    assert events(path) == ["begin"]


def failing(call: Callable[..., Any], when: int) -> Callable[..., Any]:
    """The call, which fails from its `when`th time on."""
    times = 0

    def replaced(*arguments: Any) -> Any:
        nonlocal times
        times += 1
        if times >= when:
            raise OSError(28, "No space left on device")
        return call(*arguments)

    return replaced


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_without_a_beginning_on_the_disk_there_is_no_effect(
    path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(path)
    monkeypatch.setattr(os, name, failing(getattr(os, name), 1))
    outcome = spool.process(AWAY, "payments", KEY, lambda: pytest.fail("ran"))
    assert (outcome.advice, outcome.reason) == (Advice.RETRY_LATER, "SPOOL_FAILED")
    assert isinstance(outcome.error, SpoolFailed)
    # What the system has lost of the file is not known: it is not written any more, though it could be.
    monkeypatch.undo()
    assert spool.process(AWAY, "payments", KEY, lambda: pytest.fail("ran")).reason == "SPOOL_FAILED"


def test_an_end_that_cannot_be_written_is_not_acknowledged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(path)
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 2))
    outcome = spool.process(AWAY, "payments", KEY, lambda: b"paid")
    assert (outcome.advice, outcome.effect_unknown, outcome.result) == (Advice.RETRY_LATER, True, b"paid")


def test_a_short_write_is_a_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool, write = Spool(path), os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:10]))
    assert spool.process(AWAY, "payments", KEY, lambda: pytest.fail("ran")).reason == "SPOOL_FAILED"
    spool.close()
    monkeypatch.undo()
    with Spool(path) as spool:
        assert spool.process(AWAY, "payments", KEY, lambda: None).advice is Advice.ACK
    cut, *whole = path.read_text().splitlines()
    assert len(cut) == 10
    assert [json.loads(line)["event"] for line in whole] == ["begin", "end"]


def test_one_process_has_the_file(path: Path) -> None:
    with Spool(path):
        with pytest.raises(SpoolFailed, match="has the file"):
            Spool(path)
        code = "import sys; from idempotency_ledger.spool import Spool; Spool(sys.argv[1])"
        places = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=places)
        assert ran.returncode != 0
        assert "has the file" in ran.stderr
    Spool(path).close()


def test_a_spool_of_before_a_fork_is_refused(path: Path) -> None:
    spool = Spool(path)
    child = os.fork()
    if child == 0:
        outcome = spool.process(AWAY, "payments", KEY, lambda: os._exit(1))
        os._exit(0 if outcome.reason == "SPOOL_FAILED" else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lines(path) == []


@pytest.mark.parametrize(
    ("result", "stored", "dropped"),
    [(b"x" * 16_384, True, False), (b"x" * 16_385, False, True), (None, False, False), (object(), False, True)],
)
def test_a_result_beyond_the_bound_is_left_out(path: Path, result: Any, stored: bool, dropped: bool) -> None:
    with Spool(path) as spool:
        outcome = spool.process(AWAY, "payments", KEY, lambda: result)
    assert (outcome.advice, outcome.result_dropped) == (Advice.ACK, dropped)
    assert ("result_base64" in lines(path)[1]) is stored
    assert all(len(line) < 65_536 for line in path.read_text().splitlines())


@pytest.mark.parametrize(("consumer", "body", "both"), [("", None, False), ("c", "text", False), ("c", b"body", True)])
def test_a_mistake_of_the_program_is_refused(path: Path, consumer: str, body: Any, both: bool) -> None:
    from idempotency_ledger import Fingerprint

    fingerprint: Optional[Fingerprint] = Fingerprint(b"x") if both else None
    with Spool(path) as spool, pytest.raises(InvalidField):
        spool.process(AWAY, consumer, KEY, lambda: pytest.fail("ran"), body=body, fingerprint=fingerprint)


def test_lines_have_instants_of_their_own(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = datetime.datetime(2026, 5, 28, 20, tzinfo=datetime.timezone.utc)

    class Still(datetime.datetime):
        @classmethod
        def now(cls, tz: Optional[datetime.tzinfo] = None) -> Any:
            return now

    monkeypatch.setattr(datetime, "datetime", Still)
    with Spool(path) as spool:
        for _ in range(200):
            spool.process(AWAY, "payments", KEY, lambda: None)
    instants = [line["at"] for line in lines(path)]
    assert instants == sorted(set(instants))


def test_a_coroutine_is_written_down_too(path: Path) -> None:
    ran: List[Tuple[str, ...]] = []

    async def effect() -> bytes:
        ran.append(tuple(events(path)))
        return b"paid"

    async def fails() -> bytes:
        raise Retry("later")

    with Spool(path) as spool:
        outcome = asyncio.run(spool.process_async(AWAY, "payments", KEY, effect))
        assert outcome.result == b"paid"
        assert asyncio.run(spool.process_async(AWAY, "payments", KEY, fails)).advice is Advice.RETRY_LATER
        answered = Outcome(Advice.ACK)
        assert asyncio.run(spool.process_async(answered, "payments", KEY, effect)) is answered
        with pytest.raises(InvalidField):
            spool.process(AWAY, "payments", KEY, effect)  # type: ignore[arg-type]
    assert ran == [("begin",)]
    assert events(path) == ["begin", "end", "begin", "none"]
