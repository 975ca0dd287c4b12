"""Installs the packed modules into a clean environment, and builds and runs the README's first example there.

    python install.py                  to the example's first line
    python install.py --binary PATH    and on to a message, with the server of this path

Nothing of this tree but the packed module and the example's broker and provider is there; the modules that the package needs
come from the module cache where it has them, else from the usual proxy.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
import pack


def go(folder: pathlib.Path, environment: dict[str, str], *arguments: str) -> str:
    """The output of a go command."""
    ran = subprocess.run(["go", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise SystemExit(f"go {' '.join(arguments)}: {ran.stderr}")
    return ran.stdout.strip()


def built(folder: pathlib.Path) -> pathlib.Path:
    """The program of the first example, over the packed module."""
    proxies = [f"file://{folder}/proxy", f"file://{go(folder, dict(os.environ), 'env', 'GOMODCACHE')}/cache/download",
               go(folder, dict(os.environ), "env", "GOPROXY")]
    environment = {**os.environ, "GOPROXY": ",".join(proxies), "GONOSUMDB": "idempotency-ledger.internal", "GOMODCACHE": str(folder / "modules"),
                   "GOFLAGS": "-modcacherw -buildvcs=false", "GOWORK": "off"}
    pack.pack(folder / "proxy")
    shop = folder / "shop"
    example = ROOT / "tests" / "conformance" / "examples" / "go"
    subprocess.run([sys.executable, example / "readme.py", HERE.parent / "README.md", shop, "first example"], check=True)
    (shop / "go.mod").unlink()
    (shop / "go.sum").unlink()
    go(shop, environment, "mod", "init", "example.com/shop")
    go(shop, environment, "get", f"{pack.MODULE}@{pack.VERSION}")
    go(shop, environment, "build", "-o", "example", ".")
    for adapter in pack.modules()[1:]:
        module = f"{pack.MODULE}/{adapter.name}"
        go(shop, environment, "get", f"{module}@{pack.VERSION}")
        go(shop, environment, "build", module)
    used = go(shop, environment, "list", "-m", "-f", "{{.Dir}}", pack.MODULE)
    if not used.startswith(str(folder)):
        raise SystemExit(f"the module is that of {used}")
    return shop / "example"


class Example:
    """The example, as its broker and its provider speak."""

    def __init__(self, program: pathlib.Path, endpoint: str) -> None:
        self._process = subprocess.Popen([program], env={**os.environ, "LEDGER_ENDPOINT": endpoint}, stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)

    def send(self, **command: Any) -> None:
        """A line of the scenario."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def expect(self, event: str, **fields: Any) -> None:
        """The next line of the example."""
        assert self._process.stdout
        found = json.loads(self._process.stdout.readline())
        if found["event"] != event or any(found[name] != value for name, value in fields.items()):
            raise SystemExit(f"instead of {event} {fields} it says {found}")

    def kill(self) -> None:
        """Ends it: before its first message it may not listen to signals yet."""
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> None:
        """SIGTERM, after which it exits with 0."""
        self._process.terminate()
        if self._process.wait(30) != 0:
            raise SystemExit(f"it has exited with {self._process.returncode}")


def served(binary: str, folder: pathlib.Path) -> tuple[subprocess.Popen[bytes], str]:
    """A server over a new file, which is healthy, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen([binary, "serve", "--listen", address, "--http-listen", "off", "--observe-listen", "off", "--database-url",
                               f"sqlite://{folder}/ledger.db"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while subprocess.run([binary, "health", "--address", address], capture_output=True, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            server.kill()
            raise SystemExit("the server does not start")
        time.sleep(0.05)  # A condition of another process, which sends no event.
    return server, address


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", help="the server")
    binary = parser.parse_args().binary
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ledger-go-install-"))
    server = None
    try:
        program = built(folder)
        address = "127.0.0.1:1"
        if binary:
            server, address = served(str(pathlib.Path(binary).resolve()), folder)
        example = Example(program, address)
        example.expect("ready")
        if binary:
            example.send(do="process", call="1", id="order-1")
            example.expect("effect", id="order-1")
            example.send(do="go", call="charge-order-1")
            example.expect("outcome", call="1", advice="ACK")
            example.send(do="process", call="2", id="order-1")
            example.expect("outcome", call="2", advice="ACK")
            example.stop()
        else:
            example.kill()
    finally:
        if server:
            server.kill()
            server.wait(10)
        shutil.rmtree(folder)
    print("the packed module was installed, and the first example ran" + (", and processed a message once" if binary else ""))


if __name__ == "__main__":
    main()
