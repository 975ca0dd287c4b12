"""The databases of the guard's scenario: SQLite, and a Postgres and a MariaDB to throw away."""

from __future__ import annotations

import contextlib
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Behind what is imported already: the modules of these folders are not for the other scenarios.
sys.path.append(str(ROOT / "tests" / "guard"))


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    script = ("source tests/lib/say.sh; source tests/lib/tools.sh; source tests/lib/postgres.sh; postgres_start;"
              " echo \"$POSTGRES_URL\"; read -r _; postgres_stop")
    with subprocess.Popen(["bash", "-euo", "pipefail", "-c", script], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin and shell.stdout
        try:
            yield shell.stdout.readline().strip()
        finally:
            shell.stdin.write("\n")
            shell.stdin.close()
            shell.wait(30)


@contextlib.contextmanager
def places(folder: pathlib.Path) -> Iterator[list[Any]]:
    """One of each kind; `make(name)` of each makes a database with the guard's table and one of payments."""
    from places import MariaDb, Postgres, Sqlite
    from running import Running

    with Running() as running, _postgres() as url:
        yield [Sqlite(folder), Postgres(url), MariaDb(running)]


def receipts(url: str, id: str) -> list[str]:
    """The receipts of a message's payments."""
    from databases import Database

    database = Database(url)
    try:
        return [str(row[0]).rstrip() for row in database.execute("SELECT receipt FROM payments WHERE id = ?", id).fetchall()]
    finally:
        database.close()
