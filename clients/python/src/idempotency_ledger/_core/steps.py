"""What the rules ask of their driver, and what the driver answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Generator, Optional, TypeVar, Union

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from .._proto import ledger_pb2 as pb
from ..outcome import Advice

# The ledger's own errors after which it is unknown whether the call was applied.
_UNKNOWN = frozenset({"OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED"})
_ADVICES: Dict[int, Advice] = {
    int(pb.ADVICE_ACK): Advice.ACK,
    int(pb.ADVICE_RETRY_LATER): Advice.RETRY_LATER,
    int(pb.ADVICE_DEAD_LETTER): Advice.DEAD_LETTER,
}
DEFAULT_DELAY = 1.0
"""Seconds before the next delivery where the ledger names no time."""


@dataclass(frozen=True)
class Send:
    """Send `request` to `method` of LedgerService, with a deadline of `timeout` seconds."""

    method: str
    request: Message
    timeout: float
    repeat: bool = False
    """It is a repeat: it waits for a connection until its deadline, rather than fail without one."""


@dataclass(frozen=True)
class Sleep:
    """Wait for `seconds`."""

    seconds: float


@dataclass(frozen=True)
class Failure:
    """A call that ended with an error. `reason` is `None` where the ledger did not make the error."""

    code: str
    reason: Optional[str] = None
    advice: Optional[str] = None
    retry_after: Optional[float] = None
    text: str = ""

    @property
    def unknown(self) -> bool:
        """It is unknown whether the call was applied: only its repeat finds out."""
        return self.reason is None or self.reason in _UNKNOWN

    @property
    def repeatable(self) -> bool:
        """The identical request may be answered otherwise."""
        return self.unknown or self.retry_after is not None

    @property
    def away(self) -> bool:
        """The ledger could not be reached, or could not serve. Any other error is an answer."""
        return self.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED")

    def advised(self) -> Advice:
        """The advice of the error; RETRY_LATER without one, and for one that this version does not know."""
        return next((known for known in Advice if self.reason and known.value == self.advice), Advice.RETRY_LATER)

    def name(self) -> str:
        """The reason, for people."""
        return self.reason or f"NO_ANSWER ({self.code})"


class CallFailed(Exception):
    """A call was refused, or its outcome is still unknown after all repeats."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.name())
        self.failure = failure


@dataclass(frozen=True)
class World:
    """What the rules may know of the world, and how long they may try."""

    clock: Callable[[], float]
    """Seconds of a clock that never goes back."""
    random: Callable[[], float]
    """A number from 0 to 1."""
    call_timeout: float = 5.0
    """Seconds that one try of a call may take."""
    claim_budget: float = 10.0
    """Seconds that a Claim and its repeats may take, besides its `wait`."""
    settle_budget: float = 20.0
    """Seconds that a settlement and its repeats may take."""


_T = TypeVar("_T")
Steps = Generator[Union[Send, Sleep], Any, _T]
"""Sent back: the answer of a Send or its `Failure`; `None` after a Sleep."""


def seconds(duration: Duration) -> float:
    """The seconds of a protobuf duration."""
    return duration.seconds + duration.nanos / 1e9


def duration(value: float) -> Duration:
    """A number of seconds as a protobuf duration, in whole microseconds: the ledger refuses a part of one."""
    whole, micros = divmod(round(value * 1e6), 1_000_000)
    return Duration(seconds=whole, nanos=micros * 1000)


def advice_of(number: int) -> Optional[Advice]:
    """The advice of an answer; `None` for PROCESS, for none, and for one that this version does not know."""
    return _ADVICES.get(number)
