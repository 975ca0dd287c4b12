"""What happens to each message, by the seed: at which point its process is hit, and what an operator does."""

import random
from dataclasses import dataclass, field

COPIES = 3  # deliveries of each message, as its producer or its broker repeats it
KILL, STOP = "SIGKILL", "SIGSTOP"
EXPIRED, AT_RANDOM = "stopped beyond its hold", "killed at random"
# Each kind of harm: the point and the signal. A process that is stopped wakes up after its lease; `expired` only after
# its hold, when the guard row may be deleted. `at random` is a kill at any instant of a delivery.
HARMS = {
    "killed before the transaction": ("before transaction", KILL),
    "killed before the effect": ("before effect", KILL),
    "killed between effect and commit": ("before commit", KILL),
    "killed between commit and Complete": ("before Complete", KILL),
    "killed between Complete and ack": ("before ack", KILL),
    AT_RANDOM: (None, KILL),
    "stopped before the transaction": ("before transaction", STOP),
    "stopped between effect and commit": ("before commit", STOP),
    "stopped between commit and Complete": ("before Complete", STOP),
    EXPIRED: ("before transaction", STOP),
}
REDRIVE, PURGE, OPERATED, CALM = "redriven by force", "purged", "redriven or purged", "nothing"
# Of many messages a twentieth is hit, and a tenth is redriven or purged; of a few nearly all, and a third.
FEW = 200


@dataclass
class Message:
    id: str
    harm: str | None = None
    kind: str = CALM  # what happens to it, for the table
    redriven_amid: bool = False  # also while the stopped process has its claim
    between: list = field(default_factory=list)  # what an operator does between the copies; empty: all come at once
    purged_late: bool = False  # by DeleteEntry, which waits a minute
    left: int = COPIES  # copies that are not acknowledged yet
    deleted: bool = False  # its guard row, as too old


def plan(lane, size, seed):
    chance = random.Random(f"{seed} {lane}")
    kinds = list(HARMS)
    harmed = range(size) if size <= FEW else chance.sample(range(size), size // 20)
    operated = set(chance.sample(range(size), size // 3 if size <= FEW else size // 10))
    messages = [Message(f"order-{number}") for number in range(size)]
    for turn, number in enumerate(harmed):
        message = messages[number]
        # Every twelfth is left in peace, where all are harmed.
        message.harm = kinds[turn % 12] if turn % 12 < len(kinds) else None
        message.kind = message.harm or CALM
        message.redriven_amid = chance.random() < 0.5
    for number in operated:
        messages[number].between = [chance.choice([REDRIVE, PURGE]) for _ in range(COPIES - 1)]
        messages[number].kind = OPERATED
        messages[number].purged_late = size > FEW and chance.random() < 0.3
    return messages, chance
