"""A driver of the core for tests: its clock stands still unless a step takes time, and its answers are a script."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple, Union

from idempotency_ledger._core.holds import Hold
from idempotency_ledger._core.steps import Failure, Send, Sleep, Steps, World, duration
from idempotency_ledger._proto import ledger_pb2 as pb

LEASE, MAX_HOLD = 30.0, 100.0
KEY = pb.EntryKey(consumer="c", source="s", id="i")
Answer = Union[Any, Failure, Callable[[], Any]]


class Play:
    """Drives steps. Each Send takes the next answer of the script, and `takes` seconds."""

    def __init__(self, *script: Answer, takes: float = 0.0) -> None:
        self.now = 1000.0
        self.script = list(script)
        self.takes = takes
        self.sent: List[Tuple[str, Any, float, float]] = []
        self.slept: List[float] = []
        self.repeats: List[bool] = []
        self.world = World(lambda: self.now, lambda: 1.0)

    def run(self, steps: Steps[Any], until: Optional[float] = None) -> Any:
        """The result of the steps; `None` where the clock has reached `until` before their end."""
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(step, Sleep):
                self.slept.append(step.seconds)
                self.now += step.seconds
                answer = None
                if until is not None and self.now >= until:
                    return None
            else:
                answer = self.answer(step)

    def answer(self, step: Send) -> Any:
        """The next answer of the script, given after the call has taken its time."""
        copy = type(step.request)()
        copy.CopyFrom(step.request)
        self.repeats.append(step.repeat)
        self.sent.append((step.method, copy, step.timeout, self.now))
        if not self.script:
            raise AssertionError(f"{step.method} is not in the script: {step.request}")
        self.now += self.takes
        answer = self.script.pop(0)
        return answer() if callable(answer) else answer

    @property
    def methods(self) -> List[str]:
        """The methods of the calls that were sent."""
        return [method for method, _, _, _ in self.sent]

    def hold(self, lease: float = LEASE, **fields: Any) -> Hold:
        """A hold that was granted now."""
        return Hold(self.world, pb.ClaimRequest(key=KEY), granted(lease, **fields), self.now)


def granted(lease: float = LEASE, **fields: Any) -> pb.Acquired:
    """A grant, with 2^53 - 1 for its token."""
    return pb.Acquired(token=2**53 - 1, attempt=1, lease=duration(lease), hold=duration(MAX_HOLD), **fields)


def acquired(lease: float = LEASE, **fields: Any) -> pb.ClaimResponse:
    """The answer of a Claim that is granted."""
    return pb.ClaimResponse(advice=pb.ADVICE_PROCESS, acquired=granted(lease, **fields))


def ours(reason: str, advice: str = "RETRY_LATER", after: Optional[float] = None, code: str = "ABORTED") -> Failure:
    """An error that the ledger made."""
    return Failure(code, reason, advice, after)


HOP = Failure("INTERNAL")
"""An error that a hop made."""
