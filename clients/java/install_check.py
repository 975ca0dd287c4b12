"""Installs the built jar into an empty Maven repository, and runs the README's first example there: install_check.py --binary PATH.

The example is given two messages of one id over a real server: the first one has its effect, the second one is acknowledged without
one; then SIGTERM ends it with the code 0.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from typing import Any

from started import ledger

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
EXAMPLE = ROOT / "tests" / "conformance" / "examples" / "java" / "run.py"
USER = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>user</groupId>
  <artifactId>user</artifactId>
  <version>1</version>
  <repositories><repository><id>built</id><url>{built}</url></repository></repositories>
  <dependencies>
    <dependency>
      <groupId>idempotencyledger</groupId>
      <artifactId>idempotency-ledger-client</artifactId>
      <version>0.1.0</version>
    </dependency>
  </dependencies>
</project>
"""


def maven(*arguments: str) -> None:
    """Runs Maven."""
    subprocess.run(["mvn", "-q", "-B", *arguments], check=True, cwd=HERE)


def installed(folder: pathlib.Path) -> pathlib.Path:
    """A file with the class path of a project that depends on the client alone, out of an empty repository."""
    built = (folder / "built").as_uri()
    maven("deploy", "-DskipTests", "-Dmaven.javadoc.skip=true", "-pl", "client", "-am", f"-DaltDeploymentRepository=built::{built}")
    (folder / "pom.xml").write_text(USER.format(built=built), encoding="utf-8")
    found = folder / "classpath"
    maven("-f", str(folder / "pom.xml"), f"-Dmaven.repo.local={folder / 'repository'}",
          "org.apache.maven.plugins:maven-dependency-plugin:3.11.0:build-classpath", f"-Dmdep.outputFile={found}")
    arguments = folder / "arguments"
    arguments.write_text(f'"-cp"\n"{found.read_text().strip()}"\n', encoding="utf-8")
    return arguments


def tried(arguments: pathlib.Path, address: str) -> None:
    """Runs the example over a server."""
    command = [sys.executable, str(EXAMPLE), str(HERE / "README.md"), str(arguments)]
    environment = {**os.environ, "LEDGER_ENDPOINT": address}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as example:
        assert example.stdin and example.stdout
        effects = 0

        def tell(**command: Any) -> None:
            assert example.stdin
            example.stdin.write(json.dumps(command) + "\n")
            example.stdin.flush()

        for event in map(json.loads, example.stdout):
            if event["event"] == "ready":
                tell(do="process", call="1", id="order-1")
            elif event["event"] == "effect":
                effects += 1
                tell(do="go", call=event["call"])
            elif event["advice"] != "ACK":
                raise SystemExit(f"a message was not acknowledged: {event}")
            elif event["call"] == "1":
                tell(do="process", call="2", id="order-1")
            else:
                example.send_signal(signal.SIGTERM)
        if (example.wait(30), effects) != (0, 1):
            raise SystemExit(f"the example has exited with {example.returncode} after {effects} effects")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "target" / "debug" / "idempotency-ledger"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ledger-installed-") as folder, ledger(options.binary) as address:
        tried(installed(pathlib.Path(folder)), address)
    print("the first example of clients/java/README.md runs from the built jar")


if __name__ == "__main__":
    main()
