"""What the runs ask of a broker."""

from __future__ import annotations

from typing import Any

from running import Running

STRUCTURED = "application/cloudevents+json"
# Attributes of a structured event among its headers, the same for all messages: what counts is in the body.
MISLEADING = {"id": "one", "source": "headers"}
Event = dict[str, Any]


def misleading(prefix: str) -> dict[str, str]:
    """The attributes of MISLEADING as headers of a binding of CloudEvents."""
    return {prefix + name: value for name, value in MISLEADING.items()}


class Broker:
    """A real broker, started for one run, with one topic, queue or stream of messages, and one of dead letters.

    `needs`: its programs. `every`: seconds between two faults. `portions`: a consumer is killed after each but the last.
    `restarts`: it can be killed and started again. `wait`: seconds until what a dead consumer holds is given to another one:
    the end of its session, or the acknowledgement wait. `divides`: a group divides the partitions among its members. `shares`: the
    number of partitions where a topic has some; 0: as many as a run with one language needs.
    """

    name, needs = "", ()
    every, portions, restarts = 0.3, 1, False
    wait, divides = 2.0, False

    def __init__(self, running: Running, wait: float | None = None, shares: int = 0) -> None:
        self.running, self.shares = running, shares
        self.wait = wait or self.wait
        self.url = ""
        self._start()

    def _start(self) -> None:
        """Starts the server; afterwards `url` is what a consumer needs."""
        raise NotImplementedError

    def end(self) -> None:
        """Ends what does not end with the process that was started."""

    def publish(self, events: list[Event]) -> None:
        """Sends them, and waits until they are stored."""
        raise NotImplementedError

    def left(self) -> int:
        """The number of messages that are not acknowledged."""
        raise NotImplementedError

    def dead(self) -> list[str | None]:
        """The ids of the dead letters."""
        raise NotImplementedError

    def rebalance(self) -> None:
        """Makes the group divide the partitions again."""

    def rebalances(self) -> int:
        """How often the group has divided the partitions."""
        return 0

    def began(self) -> int:
        """How often the group has begun to divide them again."""
        return 0
