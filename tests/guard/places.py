"""The three databases that a guard may be in, each with the guard's table of the package and the table of the example."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "guard"
PACKAGE = ROOT / "clients" / "python" / "src"
GUARD = PACKAGE / "idempotency_ledger" / "guard"
sys.path.insert(0, str(ROOT / "tests" / "python"))
from running import wait_for  # noqa: E402

# Before the other examples, one of which has a consumer.py too, and before a package that is installed.
sys.path[:0] = [str(EXAMPLE), str(PACKAGE)]
from databases import Database  # noqa: E402

OLD_ROWS = re.compile(r"^-- delete old rows: begin\n(.*?)^-- delete old rows: end", re.DOTALL | re.MULTILINE)


def statements(path):
    """Those of an SQL file, without its comments."""
    text = re.sub(r"--.*", "", path.read_text())
    return [one for one in text.split(";") if one.strip()]


class Place:
    """A database of one kind; `make` gives a new, empty one with the tables."""

    def __init__(self, name, file):
        self.name, self.file = name, file

    def make(self, name):
        url = self.create(name)
        database = Database(url)
        for one in statements(GUARD / self.file) + statements(EXAMPLE / "payments.sql"):
            database.execute(one)
        database.close()
        return url

    def delete_old_rows(self):
        """The statement that the SQL file shows."""
        return OLD_ROWS.search((GUARD / self.file).read_text())[1].replace("-- ", "").strip().rstrip(";")


class Postgres(Place):
    """Beside the ledger's own, in the same cluster."""

    def __init__(self, url):
        super().__init__("postgres", "postgres.sql")
        self.server = url.rpartition("/")[0]
        self.admin = url

    def create(self, name):
        server = Database(self.admin)
        server.execute(f"CREATE DATABASE {name}")
        server.close()
        return f"{self.server}/{name}"


class Sqlite(Place):
    def __init__(self, folder):
        super().__init__("sqlite", "sqlite.sql")
        self.folder = folder

    def create(self, name):
        return f"sqlite:{self.folder / name}.db"


class MariaDb(Place):
    """A server of our own: with its own folder and socket, as its own user where we are root."""

    def __init__(self, running):
        super().__init__("mariadb", "mysql.sql")
        self.folder = tempfile.TemporaryDirectory(prefix="ledger-mariadb-", dir="/tmp")
        home = pathlib.Path(self.folder.name)
        self.socket = home / "socket"
        # Whatever ends us ends the server too.
        drop = ["setpriv", "--pdeathsig", "KILL"]
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        if os.geteuid() == 0:
            subprocess.run(["chown", "mysql:", home], check=True)
            drop += ["--reuid", "mysql", "--regid", "mysql", "--clear-groups"]
        # A server that starts deletes the temporary tables that it finds: in /tmp they may be those of another one.
        folders = ["--no-defaults", f"--datadir={home / 'data'}", f"--tmpdir={home}"]
        install = [*drop, "mariadb-install-db", *folders, "--skip-test-db", "--auth-root-authentication-method=normal"]
        made = subprocess.run(install, cwd="/", capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(f"mariadb-install-db failed; is mariadb-server installed?\n{made.stdout}{made.stderr}")
        self.server = running.start("mariadb", *drop, "mariadbd", *folders, f"--socket={self.socket}", "--skip-networking",
                                    "--max-connections=400")
        wait_for("MariaDB answers", self.answers, seconds=60)

    def answers(self):
        asked = ["mariadb-admin", "--no-defaults", f"--socket={self.socket}", "--user=root", "ping"]
        return subprocess.run(asked, capture_output=True).returncode == 0

    def create(self, name):
        server = Database(self.url("mysql"))
        # As many databases are made: without regard to case and to spaces at the end.
        server.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        server.close()
        return self.url(name)

    def url(self, name):
        return f"mysql://root@localhost/{name}?unix_socket={self.socket}"
