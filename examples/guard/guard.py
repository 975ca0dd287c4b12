"""An effect in your own database, once: the guard row and the effect commit together, or not at all.

Copy it. It knows no broker, no stubs and no dialect: `databases.py` has what differs between databases.
docs/effects.md has the reasons, and what the guard does not promise.
"""

import time
from dataclasses import dataclass

INSERT = "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES (?, ?, ?, ?, ?, ?)"
KEEP = "UPDATE effect_guard SET result = ? WHERE idempotency_key = ? AND replay_run = ?"
READ = "SELECT consumer, source, id, result FROM effect_guard WHERE idempotency_key = ? AND replay_run = ?"


class Undecided(Exception):
    """Whether the effect happened is not known here, and need not be: settle nothing, and let the broker deliver the
    message again (RETRY_LATER). The next attempt learns it from the guard."""


class WrongRow(Exception):
    """The guard row under this key names another message, has no result, or is gone. Another program writes this table,
    names are cut or folded, or the effect has ended the transaction: settle nothing, stop, and tell a person."""


@dataclass(frozen=True)
class Claim:
    """What `acquired` says, as far as the guard needs it."""

    idempotency_key: str
    replay_run: str
    consumer: str
    source: str
    id: str
    token: int
    until: float  # time.monotonic() of *before* the call of Claim, plus the `hold` of its answer

    @property
    def key(self):
        return self.idempotency_key, self.replay_run

    @property
    def names(self):
        return self.consumer, self.source, self.id


def once(database, claim, effect):
    """Has the effect unless an earlier attempt had it; returns the result of the attempt that had it, for Complete.

    `effect` is given `database.execute`, writes by nothing else, neither begins nor ends a transaction, catches no
    error of the database, and returns the result as bytes. What else it raises leaves this function after a rollback:
    then the effect did not happen.
    """
    try:
        database.open()
        if time.monotonic() >= claim.until:
            raise Undecided("the claim's hold is over: an older guard row may have been deleted by now")
        database.begin()
        # The first statement. While another transaction has the row and did not commit, it waits: not for ever.
        if not database.insert_new(INSERT, *claim.key, *claim.names, claim.token):
            return done_before(database, claim)
        result = effect(database.execute)
        if database.execute(KEEP, result, *claim.key).rowcount != 1:
            raise WrongRow(f"the guard row of {claim.key} is gone: the effect has ended the guard's transaction")
        database.commit()
        return result
    except database.Error as error:  # a wait that was too long, a deadlock, a lost connection, a COMMIT without answer
        raise Undecided(f"{type(error).__name__}: {error}") from error
    finally:
        database.rollback()  # of whatever is not committed


def done_before(database, claim):
    """The result of the attempt that had the effect, if the guard row is that of this very message."""
    row = database.execute(READ, *claim.key).fetchone()
    if row is None:
        raise Undecided("the guard row was deleted this very moment")
    *names, result = row
    if [as_bytes(name) for name in names] != [as_bytes(name) for name in claim.names]:
        raise WrongRow(f"the guard row of {claim.key} is that of {names}, and this message is {claim.names}")
    if result is None:
        raise WrongRow(f"the guard row of {claim.key} has no result: it was committed without its effect")
    return bytes(result)


def as_bytes(name):
    return name.encode() if isinstance(name, str) else bytes(name)
