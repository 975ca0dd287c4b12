"""The commands of README.md, each block as it stands there, as a newcomer types them.

A block of commands has a name (`<!-- run: NAME -->`), and is run here; a text that follows it is what it
prints. The one block without a name is `tests/run`, which runs this. What takes long, or a network, is
stood in for: `cargo run --profile quick` runs the binary that is there, a new environment of Python is the one
of the tests. `tests/prove bare-debian` stands in for nothing.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys

from running import ROOT, Running, free_port, options, wait_for

BLOCK = re.compile(r"(?:<!-- run: ([a-z-]+) -->\n)?```([a-z]*)\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.S)
SERVE = "serve"
UNNAMED = "tests/run\n"

CARGO = """#!/bin/sh
[ "$1 $2 $3 $4" = "run --profile quick --" ] || { echo "cargo $*: no command that a newcomer types" >&2; exit 1; }
shift 4
exec BINARY "$@"
"""
PYTHON3 = """#!/bin/sh
[ "$*" = "-m venv .venv" ] || { echo "python3 $*: no command that a newcomer types" >&2; exit 1; }
mkdir -p .venv/bin
printf '#!/bin/sh\\nexec PYTHON "$@"\\n' >.venv/bin/python
printf '#!/bin/sh\\n[ "$*" = "install ./clients/python" ] && exit\\n[ "$1" = install ] && shift && exec PYTHON -m pip --quiet show "$@"\\n' >.venv/bin/pip
chmod +x .venv/bin/*
"""


def blocks(readme):
    """The named blocks: name, commands, and what they print if the page tells it."""
    found = []
    for name, kind, text, printed in BLOCK.findall(readme):
        if kind == "sh" and not name:
            assert text == UNNAMED, f"README.md: a block of commands that no test runs; name it: {text}"
        elif kind == "sh":
            found.append((name, text, printed))
        else:
            assert kind in ("text", "toml") and not name, f"README.md: a block of {kind or 'no language'}: {text}"
            typed = [line for line in text.splitlines() if line.startswith("$ ")]
            assert not typed, f"README.md: commands that no test runs, since they stand in a text: {typed}"
    assert readme.count("```sh\n") == len(found) + 1, "README.md: a block of commands that is not at the margin"
    assert found and len({name for name, _, _ in found}) == len(found), "names are there once"
    return found


def newcomer(running, binary):
    """A folder that looks like a fresh clone after the build, and the environment of its shell."""
    folder = running.path / "clone"
    shims = running.path / "shims"
    for made in (folder / "target" / "quick", shims):
        made.mkdir(parents=True)
    for name in ("clients", "examples", "proto"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "target" / "quick" / "idempotency-ledger").symlink_to(binary)
    for name, script in (("cargo", CARGO), ("python3", PYTHON3)):
        (shims / name).write_text(script.replace("BINARY", str(binary)).replace("PYTHON", sys.executable))
        (shims / name).chmod(0o755)
    address = f"127.0.0.1:{free_port()}"
    # Two newcomers on one machine: not both have the default port.
    # PYTHONPATH: what `pip install ./clients/python` brings.
    return folder, {**os.environ, "PATH": f"{shims}:{os.environ['PATH']}", "PYTHONPATH": "clients/python/src",
                    "IDEMPOTENCY_LEDGER_LISTEN": address, "IDEMPOTENCY_LEDGER_ENDPOINT": address,
                    "LEDGER_ENDPOINT": address, "COLUMNS": "110"}


def main():
    chosen = options(__doc__)
    binary = pathlib.Path(chosen.binary).resolve()
    found = blocks((ROOT / "README.md").read_text())
    with Running() as running:
        folder, environment = newcomer(running, binary)

        def shell(block):
            return ["bash", "-euo", "pipefail", "-c", block]

        names = [name for name, _, _ in found]
        assert names[0] == SERVE, f"the first thing that a newcomer types starts the server, not {names[0]}"
        log = (running.path / "server.log").open("ab")
        serve = found[0][1].strip()
        server = subprocess.Popen(shell(f"exec {serve}"), cwd=folder, env=environment, stdout=log, stderr=log)
        running.processes.append(server)

        def healthy():
            assert server.poll() is None, running.log("server")
            return subprocess.run([binary, "health"], env=environment | {"PATH": os.environ["PATH"]},
                                  capture_output=True, check=False).returncode == 0

        wait_for("the server is healthy", healthy)
        assert (folder / "data" / "ledger.db").exists(), "where the documents say that the ledger is"
        for name, block, printed in found[1:]:
            ran = subprocess.run(shell(block), cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, timeout=120, check=False)
            assert ran.returncode == 0, f"{name}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
            assert not printed or ran.stdout == printed, f"{name} prints\n{ran.stdout}\nREADME.md shows\n{printed}"
            assert ran.stdout.strip(), f"{name} prints nothing"
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=30) == 0, running.log("server")
    print(f"{len(found)} blocks of commands, each as it stands in README.md: {', '.join(names)}")


if __name__ == "__main__":
    main()
