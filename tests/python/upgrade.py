"""The upgrade of docs/install.md, each command as it stands there, while messages are delivered: each has its effect once.

The old and the new program are the same one at two paths: `tests/prove versions` runs two versions at the same time.
"""

import os
import pathlib
import shutil

from recipes import Day, ids, program
from running import Running, options


class Upgrade(Day):
    """Servers of an old program, and the page's commands by the new one."""

    def start(self):
        super().start()
        self.environment["URL"] = self.database_url
        self.environment["PATH"] += f"{os.pathsep}{pathlib.Path(program('pg_dump')).parent}"

    def replaced(self, binary):
        """Starts the other program, stops this one; on SQLite the other way round, since the file belongs to one."""
        old, self.binary = self.server, binary
        if not self.on_postgres:
            self.stop()
        self.start()
        if self.on_postgres:
            new, self.server = self.server, old
            self.stop()
            self.server = new


def upgrade(day, new):
    old, before, between, after = day.binary, ids("before", 10), ids("between", 5), ids("after", 5)
    assert all(day.deliver(message) == "done" for message in before)
    # These are claimed by the old server and delivered again to the new one.
    assert all(day.deliver(message, broken=True) == "failed" for message in between)
    day.step("backup-postgres" if day.on_postgres else "backup-sqlite")
    if day.on_postgres:
        assert "schema" in day.step("migrate"), "migrate reports the schema"
    assert all(day.deliver(message) == "completed" for message in before), "the old server on the new schema"
    day.replaced(new)
    assert all(day.deliver(message) == "completed" for message in before)
    assert all(day.deliver(message) == "done" for message in between + after)
    assert '"keyFormat"' in day.step("look")
    day.replaced(old)
    assert all(day.deliver(message) == "completed" for message in before + between + after), "back on the old program"
    day.once(before + between + after)


def main():
    chosen = options(__doc__)
    with Running() as running:
        new = running.path / "new" / "idempotency-ledger"
        new.parent.mkdir()
        shutil.copy2(chosen.binary, new)
        day = Upgrade(running, chosen.binary, chosen.database_url, page="install.md")
        upgrade(day, new)
        day.stop()
        apart = {"backup-postgres", "migrate"} if not day.on_postgres else {"backup-sqlite"}
        missing = set(day.steps) - set(day.ran) - apart
        assert not missing, f"the page has steps that nothing runs: {missing}"
    print("ok: an upgrade and the way back, each message had its effect once")


if __name__ == "__main__":
    main()
