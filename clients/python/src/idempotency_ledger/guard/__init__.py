"""An effect that is rows in your own SQL database, once: a guard row and the effect commit together, or not at all.

`once` is called inside of a handler. The table `effect_guard` is made by `sqlite.sql`, `postgres.sql` or `mysql.sql`
of this folder, in the database that the effects are in. docs/effects.md has the reasons, and what a guard does not
promise: nothing outside of that database, and nothing after the guard row was deleted.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Tuple

from .._claim import BaseClaim, Result
from ..errors import Doubtful, InvalidField, Retry, Steer
from ._dialects import Dialect, dialect_of

__all__ = ["Undecided", "WrongRow", "once"]

_INSERT = (
    "INSERT INTO effect_guard (idempotency_key, replay_run, consumer, source, id, token) VALUES (?, ?, ?, ?, ?, ?)"
)
_KEEP = "UPDATE effect_guard SET result = ? WHERE idempotency_key = ? AND replay_run = ?"
_READ = "SELECT consumer, source, id, result FROM effect_guard WHERE idempotency_key = ? AND replay_run = ?"


class Undecided(Doubtful):
    """It is unknown here whether the effect happened, and the next attempt learns it from the guard.

    Let it pass: nothing is settled, and the message is delivered again.
    """

    _of_guard = True


class WrongRow(Doubtful):
    """The guard row is that of another message, has no result, or is gone: something else writes the table, names are
    cut or folded, or the effect has ended the guard's transaction. Nothing is settled; stop, and let a person look."""

    _of_guard = True


def once(connection: Any, claim: BaseClaim, effect: Callable[[Any], Result]) -> bytes:
    """Has the effect unless an attempt has had it before; returns the result of the attempt that had it.

    `connection`: one of sqlite3, psycopg or PyMySQL for the guard alone, which commits by itself (``autocommit=True``,
    in sqlite3 ``isolation_level=None``) and uses UTF-8 (``charset="utf8mb4"``, the default of PyMySQL;
    ``client_encoding="utf8"``); `InvalidField` where it is not that. One that was lost is closed: take another
    one for the next message, from a pool for example. Its waits for locks are bounded here; bound those for the network
    where it is made (``tcp_user_timeout`` of psycopg, ``read_timeout`` of PyMySQL).

    `effect` is given a cursor, writes by nothing else, neither begins nor ends a transaction, catches no error of the
    database, and returns the result: bytes, text or None.

    Raises `Undecided` and `WrongRow`. What the effect raises is raised after a rollback, so that it has certainly not
    happened: steering errors as they are, any other one as the cause of a `Retry`. An error that became a `Retry` or an
    `Undecided` is logged by its type.
    """
    dialect = dialect_of(connection)
    try:
        dialect.check()
        try:
            return _transaction(dialect, claim, effect)
        finally:
            dialect.roll_back()
    except dialect.errors as error:  # A wait that was too long, a deadlock, a lost connection, a COMMIT without answer.
        if _no_table(error):
            run = f"run {dialect.file} of idempotency_ledger.guard in it"
            raise Undecided(f"the database has no table effect_guard; {run}") from error
        raise Undecided(f"{type(error).__name__} of the database") from error


def _transaction(dialect: Dialect, claim: BaseClaim, effect: Callable[[Any], Result]) -> bytes:
    dialect.bound_waits()
    # Until then an older attempt may begin, and its guard row is kept; later it may have been deleted.
    if time.monotonic() >= claim.hold_until:
        raise Undecided("the hold of the claim is over")
    dialect.begin()
    key = claim._hold.request.key
    row = (claim.idempotency_key, key.replay_run)
    # The first statement. While another transaction has the row and did not commit, it waits: not for ever.
    if not dialect.insert_new(_INSERT, (*row, key.consumer, key.source, key.id, claim.token)):
        return _done_before(dialect, row, (key.consumer, key.source, key.id))
    try:
        result = _kept(effect(dialect.cursor()))
    except Exception as error:
        if isinstance(error, (Steer, *dialect.errors)):
            raise
        again = Retry(type(error).__name__)
        again._of_guard = True
        raise again from error
    if dialect.execute(_KEEP, (result, *row)).rowcount != 1:
        raise WrongRow("the guard row is gone: the effect has ended the guard's transaction")
    dialect.commit()
    return result


def _done_before(dialect: Dialect, row: Tuple[str, str], names: Tuple[str, str, str]) -> bytes:
    """The result of the attempt that had the effect, if the guard row is that of this very message."""
    found = dialect.execute(_READ, row).fetchone()
    if found is None:
        raise Undecided("the guard row was deleted this very moment")
    if tuple(_bytes(name) for name in found[:3]) != tuple(_bytes(name) for name in names):
        raise WrongRow("the guard row is that of another message")
    if found[3] is None:
        raise WrongRow("the guard row has no result: it was committed without its effect")
    return bytes(found[3])


def _kept(result: Result) -> bytes:
    """The result as the row keeps it. Without one it is empty: NULL would say that the effect is missing."""
    if result is None:
        return b""
    if isinstance(result, str):
        return result.encode()
    if isinstance(result, (bytes, bytearray, memoryview)):
        return bytes(result)
    raise InvalidField("result", f"must be bytes, text or None, not {type(result).__name__}")


def _no_table(error: Exception) -> bool:
    """The database says that it has no table `effect_guard`: SQLite, Postgres, or MySQL and MariaDB."""
    text = str(error)
    return "effect_guard" in text and any(said in text for said in ("no such table", "does not exist", "doesn't exist"))


def _bytes(name: Any) -> bytes:
    return name.encode() if isinstance(name, str) else bytes(name)
