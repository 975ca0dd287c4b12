"""A run of tests: bounded in time, and ended with all processes that the tests have started."""

import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

# Seconds. A run that takes longer is stopped; that is not a kill.
TIMEOUT = 300
# Seconds in which a Postgres of the tests ends after the tests, and its folder is removed.
POSTGRES_ENDS = 5
# Programs that run while Postgres ends: the server, and the shell that stops the server and removes its folder.
OF_POSTGRES = {"postgres", "setpriv", "sh", "rm"}


@dataclass(frozen=True)
class Ran:
    """How a run ended: its exit code, `None` for a run that was stopped; and its output so far."""

    code: int | None
    output: str

    @property
    def failed(self):
        return self.code not in (0, None)


def run(command, folder, environment, until=None):
    """Runs a command; stopped after a line that the pattern `until` matches, or after its time."""
    # Tests that are killed do not remove their files.
    with tempfile.TemporaryDirectory(prefix="ledger-mutant-", ignore_cleanup_errors=True) as files:
        # The user of Postgres reads some of them, and writes its cluster there.
        os.chmod(files, 0o755)
        environment = {**environment, "TMPDIR": files, "IDEMPOTENCY_LEDGER_TEST_CLUSTERS": files}
        late, lines, stopped = threading.Event(), [], False
        with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", start_new_session=True) as process:
            timer = threading.Timer(TIMEOUT, lambda: (late.set(), end(process, files)))
            timer.start()
            for line in process.stdout:
                lines.append(line)
                if not stopped and until and until.match(line):
                    stopped = True
                    end(process, files)
            code = process.wait()
            timer.cancel()
            timer.join()
        end(process, files)
    return Ran(None if stopped or late.is_set() else code, "".join(lines))


def end(process, files):
    """Kills the command, waits until the Postgres of its tests has ended, then kills the remaining processes that the command started."""
    process.kill()
    until = time.monotonic() + POSTGRES_ENDS
    while OF_POSTGRES & set(started(process.pid, files).values()) and time.monotonic() < until:
        time.sleep(0.05)
    for left in started(process.pid, files):
        try:
            os.kill(left, signal.SIGKILL)
        except ProcessLookupError:
            pass  # It has ended.


def started(group, files):
    """The programs that a run has started, by process: those of its group, and those that have its folder of files in their environment,
    since some have a separate group or session."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # The name stands in parentheses, and may have any character; the third field after the name is the group.
            head, _, rest = (process / "stat").read_text(errors="replace").rpartition(")")
            state, _, its_group = rest.split()[:3]
            of_the_run = its_group == str(group) or f"TMPDIR={files}\0".encode() in (process / "environ").read_bytes()
        except OSError:
            continue  # It has ended, or is of another user.
        if of_the_run and state != "Z":
            found[int(process.name)] = head.partition("(")[2]
    return found
