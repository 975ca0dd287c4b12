"""The guard in SQLite; in Postgres and MariaDB it is run by `tests/prove guard` and `tests/prove clients`."""

from __future__ import annotations

import pathlib
import sqlite3
import time
from typing import Any, Callable, Iterator

import pytest
from world import Play

from idempotency_ledger import Doubtful, InvalidField, Retry, Terminal, guard
from idempotency_ledger._claim import BaseClaim
from idempotency_ledger.guard import Undecided, WrongRow, _dialects

CLIENTS = pathlib.Path(__file__).resolve().parents[2]
FILES = pathlib.Path(guard.__file__).parent
# Consumers in several languages may share one table.
OTHERS = [
    "go/guard",
    "java/client/src/main/resources/idempotencyledger/client/guard",
    "rust/src/guard",
    "typescript/sql",
]


def opened(path: pathlib.Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    made = opened(tmp_path / "shop.db")
    made.executescript((FILES / "sqlite.sql").read_text(encoding="utf-8"))
    made.execute("CREATE TABLE payments (id TEXT)")
    made.close()
    return tmp_path / "shop.db"


@pytest.fixture
def connection(path: pathlib.Path) -> Iterator[sqlite3.Connection]:
    made = opened(path)
    yield made
    made.close()


def claim(idempotency_key: str = "11111111-1111-5111-8111-111111111111", hold: float = 60.0) -> BaseClaim:
    held = Play().hold(idempotency_key=idempotency_key)
    held.hold_until = time.monotonic() + hold
    found = BaseClaim()
    found._held = held
    return found


def pay(result: bytes = b"receipt") -> Callable[[Any], bytes]:
    def effect(cursor: Any) -> bytes:
        cursor.execute("INSERT INTO payments VALUES ('i')")
        return result

    return effect


def payments(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM payments").fetchone()[0])


@pytest.mark.parametrize(
    ("result", "stored"), [(None, b""), ("täxt", "täxt".encode()), (bytearray(b"b"), b"b"), (memoryview(b"x"), b"x")]
)
def test_result_of_a_handler_is_one_of_an_effect(connection: sqlite3.Connection, result: Any, stored: bytes) -> None:
    """The row of an attempt that died before it completed is read by the next one."""
    assert guard.once(connection, claim(), pay(result)) == stored
    assert guard.once(connection, claim(), pay(b"second")) == stored
    assert payments(connection) == 1


def test_what_is_no_result_leaves_nothing(connection: sqlite3.Connection) -> None:
    with pytest.raises(Retry) as found:
        guard.once(connection, claim(), pay({"receipt": 1}))  # type: ignore[arg-type]
    assert str(found.value.__cause__) == "result: must be bytes, text or None, not dict"
    assert payments(connection) == 0


def test_missing_table_is_named(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE effect_guard")
    with pytest.raises(Undecided, match="has no table effect_guard; run sqlite.sql of"):
        guard.once(connection, claim(), pay())


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ('relation "effect_guard" does not exist', True),
        ("(1146, \"Table 'shop.effect_guard' doesn't exist\")", True),
        ('relation "payments" does not exist', False),
        ('canceling statement due to lock timeout CONTEXT: inserting tuple in relation "effect_guard"', False),
    ],
)
def test_missing_table_is_found_in_the_error_of_other_databases(said: str, missing: bool) -> None:
    assert guard._no_table(Exception(said)) is missing


def test_repeat_returns_the_first_result(connection: sqlite3.Connection) -> None:
    assert guard.once(connection, claim(), pay(b"first")) == b"first"
    assert guard.once(connection, claim(), pay(b"second")) == b"first"
    assert payments(connection) == 1
    assert guard.once(connection, claim("22222222-2222-5222-8222-222222222222"), pay(b"other")) == b"other"
    assert payments(connection) == 2


@pytest.mark.parametrize(
    ("raised", "error"), [(ValueError("x"), Retry), (Terminal("no"), Terminal), (sqlite3.OperationalError(), Undecided)]
)
def test_error_of_the_effect_leaves_nothing(connection: sqlite3.Connection, raised: Exception, error: Any) -> None:
    def effect(cursor: Any) -> bytes:
        pay()(cursor)
        raise raised

    with pytest.raises(error) as found:
        guard.once(connection, claim(), effect)
    assert type(found.value) is error
    assert payments(connection) == 0
    assert guard.once(connection, claim(), pay(b"later")) == b"later"


def test_nothing_begins_after_the_hold(connection: sqlite3.Connection) -> None:
    with pytest.raises(Undecided, match="hold"):
        guard.once(connection, claim(hold=-1), pay())
    assert payments(connection) == 0


def test_wait_for_another_transaction_is_bounded(
    connection: sqlite3.Connection, path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dialects.Sqlite, "waits", ("PRAGMA busy_timeout = 50",))
    other = opened(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Undecided, match="OperationalError"):
        guard.once(connection, claim(), pay())
    other.execute("ROLLBACK")
    other.close()
    assert guard.once(connection, claim(), pay()) == b"receipt"


@pytest.mark.parametrize("change", ["source = 'another'", "id = 'I'", "consumer = 'c '", "result = NULL"])
def test_row_of_another_message_is_an_alarm(connection: sqlite3.Connection, change: str) -> None:
    guard.once(connection, claim(), pay())
    connection.execute(f"UPDATE effect_guard SET {change}")
    with pytest.raises(WrongRow):
        guard.once(connection, claim(), pay())
    assert payments(connection) == 1


def test_effect_that_ends_the_transaction_is_an_alarm(connection: sqlite3.Connection) -> None:
    def effect(cursor: Any) -> bytes:
        cursor.execute("ROLLBACK")
        return b""

    with pytest.raises(WrongRow, match="ended"):
        guard.once(connection, claim(), effect)


def test_unfit_connection_is_refused(path: pathlib.Path, connection: sqlite3.Connection) -> None:
    implicit = sqlite3.connect(path)
    with pytest.raises(InvalidField, match="commit by itself"):
        guard.once(implicit, claim(), pay())
    implicit.close()
    connection.execute("BEGIN")
    with pytest.raises(InvalidField, match="open transaction"):
        guard.once(connection, claim(), pay())
    connection.execute("ROLLBACK")
    with pytest.raises(InvalidField, match="sqlite3, psycopg or pymysql"):
        guard.once(object(), claim(), pay())
    connection.close()
    with pytest.raises(Undecided):
        guard.once(connection, claim(), pay())


def test_undecided_settles_nothing() -> None:
    assert issubclass(Undecided, Doubtful)
    assert issubclass(WrongRow, Doubtful)


@pytest.mark.parametrize("name", ["sqlite.sql", "postgres.sql", "mysql.sql"])
@pytest.mark.parametrize("folder", OTHERS)
def test_tables_are_those_of_the_other_packages(folder: str, name: str) -> None:
    assert (FILES / name).read_bytes() == (CLIENTS / folder / name).read_bytes()
