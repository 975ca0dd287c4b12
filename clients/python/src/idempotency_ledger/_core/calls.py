"""How a call is repeated: the identical request, with jittered back-off, within a budget."""

from __future__ import annotations

from typing import Any, Tuple

from google.protobuf.message import Message

from .steps import CallFailed, Failure, Send, Sleep, Steps, World

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_SHORTEST_TRY = 0.05


def repeated(world: World, method: str, request: Message, budget: float, timeout: float) -> Steps[Tuple[Any, float]]:
    """Sends the identical request until an answer decides, for `budget` seconds; each try has `timeout` seconds.

    Returns the answer and the instant at which its try was sent. Raises `CallFailed` for an error that no repeat
    changes, and where the budget does not leave time for one more try.
    """
    until = world.clock() + budget
    pause, repeat = _FIRST_PAUSE, False
    while True:
        sent = world.clock()
        answer = yield Send(method, request, max(_SHORTEST_TRY, min(timeout, until - sent)), repeat)
        if not isinstance(answer, Failure):
            return answer, sent
        # With jitter: clients that were refused together, and repeated together, would only be refused again.
        wait = max(answer.retry_after or 0.0, pause * (0.5 + world.random() / 2))
        if not answer.repeatable or world.clock() + wait >= until:
            raise CallFailed(answer)
        yield Sleep(wait)
        pause, repeat = min(pause * 2, _LONGEST_PAUSE), True
